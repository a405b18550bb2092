//! Tests of a channel's state, without libca.

use std::sync::Mutex;

use super::*;

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl ChannelEvents for Recorder {
    fn connected(&self, info: ChannelInfo) {
        self.0.lock().unwrap().push(format!(
            "connected {:?} {} changed={}",
            info.native_type, info.element_count, info.type_changed
        ));
    }
    fn disconnected(&self) {
        self.0.lock().unwrap().push("disconnected".to_owned());
    }
    fn access_rights(&self, rights: AccessRights) {
        self.0.lock().unwrap().push(format!("{rights:?}"));
    }
    fn metadata(&self, _: Metadata) {
        self.0.lock().unwrap().push("metadata".to_owned());
    }
    fn update(&self, _: Update<'_>) {}
}

const SCALAR: Shape = Shape {
    native: NativeType::Double,
    count: 1,
};
const ARRAY: Shape = Shape {
    native: NativeType::Double,
    count: 8,
};

const BOTH: AccessRights = AccessRights {
    read: true,
    write: true,
};
const NONE: AccessRights = AccessRights {
    read: false,
    write: false,
};
const TOLD_BOTH: &str = "AccessRights { read: true, write: true }";
const TOLD_NONE: &str = "AccessRights { read: false, write: false }";

fn state() -> (ChannelState, Arc<Recorder>, impl Fn() -> Vec<Command>) {
    let recorder = Arc::new(Recorder::default());
    let (commands, received) = Commands::for_test();
    let state = ChannelState::new(7, recorder.clone(), commands, TextForm::Native);
    (state, recorder, received)
}

/// Does what the ca-cmd thread does.
fn subscribe(state: &ChannelState) -> Option<Shape> {
    let shape = state.shape_to_subscribe()?;
    state.set_subscribed(shape);
    Some(shape)
}

#[test]
fn events_pass_only_while_connected_and_subscribed() {
    let (state, _, _received) = state();
    assert_eq!(state.live_shape(), None);
    state.on_connected(SCALAR, BOTH, None);
    assert_eq!(state.live_shape(), None);
    assert_eq!(subscribe(&state), Some(SCALAR));
    assert_eq!(state.live_shape(), Some(SCALAR));
    state.on_disconnected();
    assert_eq!(state.live_shape(), None);
}

#[test]
fn reconnect_with_the_same_type_needs_no_new_subscription() {
    let (state, recorder, _received) = state();
    state.on_connected(SCALAR, BOTH, None);
    subscribe(&state);
    state.on_disconnected();
    state.on_connected(SCALAR, BOTH, None);

    assert_eq!(state.live_shape(), Some(SCALAR));
    assert_eq!(subscribe(&state), None);
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            TOLD_BOTH,
            "connected Double 1 changed=false",
            "disconnected",
            "connected Double 1 changed=false"
        ]
    );
}

#[test]
fn closed_channel_is_lost_and_subscribed_again() {
    let (state, recorder, _received) = state();
    state.on_connected(SCALAR, BOTH, None);
    subscribe(&state);
    state.closed();
    assert!(state.is_lost());
    assert_eq!(subscribe(&state), None);
    state.on_connected(SCALAR, BOTH, None);

    assert_eq!(state.live_shape(), None);
    assert_eq!(subscribe(&state), Some(SCALAR));
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            TOLD_BOTH,
            "connected Double 1 changed=false",
            "disconnected",
            "connected Double 1 changed=false"
        ]
    );
}

#[test]
fn old_subscription_is_ignored_after_a_change_of_type() {
    let (state, recorder, _received) = state();
    state.on_connected(SCALAR, BOTH, None);
    subscribe(&state);
    state.on_disconnected();
    state.on_connected(ARRAY, BOTH, None);

    assert_eq!(state.live_shape(), None);
    assert_eq!(subscribe(&state), Some(ARRAY));
    assert_eq!(state.live_shape(), Some(ARRAY));
    assert_eq!(
        recorder.0.lock().unwrap().last().unwrap(),
        "connected Double 8 changed=true"
    );
}

#[test]
fn type_that_changed_twice_before_subscribing_is_right() {
    let (state, _, received) = state();
    state.on_connected(SCALAR, BOTH, None);
    let shape = state.shape_to_subscribe().unwrap();
    state.on_disconnected();
    state.on_connected(ARRAY, BOTH, None);
    state.set_subscribed(shape);

    assert_eq!(state.live_shape(), None);
    let connects = received().into_iter();
    let connects = connects.filter(|command| matches!(command, Command::Connected(_)));
    assert_eq!(connects.count(), 2);
    assert_eq!(subscribe(&state), Some(ARRAY));
}

#[test]
fn channel_that_was_never_connected_is_never_disconnected() {
    let (state, recorder, _received) = state();
    state.on_disconnected();

    assert!(recorder.0.lock().unwrap().is_empty());
}

#[test]
fn flapping_channel_queues_one_command_of_each_kind() {
    let (state, _, received) = state();
    for _ in 0..100 {
        state.on_connected(SCALAR, BOTH, None);
        state.on_disconnected();
    }

    assert_eq!(received().len(), 2);
}

#[test]
fn string_has_empty_metadata_after_each_connect() {
    let (state, recorder, _received) = state();
    let text = Shape {
        native: NativeType::String,
        count: 1,
    };
    state.on_connected(text, BOTH, None);

    assert_eq!(
        *recorder.0.lock().unwrap(),
        [TOLD_BOTH, "connected String 1 changed=false", "metadata"]
    );
}

#[test]
fn rights_come_back_with_a_circuit_that_did_not_answer() {
    let (state, recorder, _received) = state();
    state.on_access_rights(BOTH);
    state.on_connected(SCALAR, BOTH, None);
    // As libca does after a stall: it doesn't report the access rights when it connects again.
    state.on_disconnected();
    state.on_access_rights(NONE);
    state.on_connected(SCALAR, BOTH, None);

    assert!(state.readable());
    assert_eq!(
        *recorder.0.lock().unwrap(),
        [
            TOLD_BOTH,
            "connected Double 1 changed=false",
            "disconnected",
            TOLD_NONE,
            TOLD_BOTH,
            "connected Double 1 changed=false"
        ]
    );
}
