//! Lists of PVs that users save on the relay: each user's, over a restart, and no other user's.
//!
//! Topology: relays with one folder, and plain connections to them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, file, get, prefix, raw};

/// A new folder.
fn folder() -> PathBuf {
    let name = format!("{}saved", prefix().replace(':', "-"));
    let path = file("saved", "").with_file_name(name);
    fs::create_dir_all(&path).unwrap();
    path
}

fn flag(folder: &Path) -> String {
    format!("--saved={}", folder.display())
}

/// A relay whose users a proxy names.
fn start(folder: &Path) -> Relay {
    let flags = [
        &flag(folder),
        "--auth=trusted-header",
        "--trusted-proxy=127.0.0.1",
        "--max-puts-per-s=1000",
    ];
    Relay::start(Network::new(), &flags)
}

fn header(user: &str) -> String {
    match user {
        "" => String::new(),
        user => format!("X-Forwarded-User: {user}\r\n"),
    }
}

/// Status and body of a change.
fn change(relay: &Relay, method: &str, title: &str, user: &str, body: &str) -> (u16, String) {
    let headers = format!(
        "{}Content-Length: {}\r\n\r\n{body}",
        header(user),
        body.len()
    );
    let path = format!("/saved/{title}");
    let (head, body) = raw(relay.address(), method, &path, &headers);
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, String::from_utf8(body).unwrap())
}

fn save(relay: &Relay, title: &str, user: &str, names: &[&str]) -> (u16, String) {
    change(
        relay,
        "PUT",
        title,
        user,
        &json!({ "names": names }).to_string(),
    )
}

fn lists(relay: &Relay, user: &str) -> Value {
    let headers: &[_] = match user {
        "" => &[],
        user => &[("X-Forwarded-User", user)],
    };
    let answer = get(relay.address(), "/saved", headers);
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str::<Value>(&answer.body).unwrap()["lists"].take()
}

#[test]
fn lists_are_those_of_the_user_and_outlast_the_relay() {
    let folder = folder();
    let relay = start(&folder);
    assert_eq!(lists(&relay, "anna"), json!({}));
    let (status, text) = save(&relay, "Ring%201", "anna", &["SR:A", "# Vacuum", "SR:B"]);
    assert_eq!(status, 200, "{text}");
    let of_anna = json!({ "Ring 1": ["SR:A", "# Vacuum", "SR:B"] });
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap()["lists"],
        of_anna
    );
    assert_eq!(save(&relay, "Mine", "../anna", &["SR:C"]).0, 200);
    drop(relay);
    let relay = Relay::start(Network::new(), &[&flag(&folder)]);
    assert_eq!(save(&relay, "All", "", &["SR:D"]).0, 200);
    assert_eq!(lists(&relay, ""), json!({ "All": ["SR:D"] }));
    drop(relay);

    let relay = start(&folder);
    assert_eq!(lists(&relay, "anna"), of_anna);
    assert_eq!(lists(&relay, "../anna"), json!({ "Mine": ["SR:C"] }));
    assert_eq!(lists(&relay, "bob"), json!({}));
    let files = fs::read_dir(&folder).unwrap();
    assert_eq!(files.count(), 3, "one file a user, and no other");
    assert_eq!(change(&relay, "DELETE", "Ring%201", "anna", "").0, 200);
    assert_eq!(lists(&relay, "anna"), json!({}));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn wrong_changes_are_refused_and_change_nothing() {
    let folder = folder();
    let relay = start(&folder);
    assert_eq!(save(&relay, "Good", "anna", &["SR:A"]).0, 200);
    let long = "x".repeat(300);
    let much = "y".repeat(400);
    let much = vec![&*much; 9_000];
    for (status, (got, text)) in [
        (422, save(&relay, &long, "anna", &["SR:A"])),
        (422, save(&relay, "", "anna", &["SR:A"])),
        (422, save(&relay, "Bad", "anna", &["a\nb"])),
        (422, save(&relay, "Bad", &"X".repeat(100), &["SR:A"])),
        (401, save(&relay, "Bad", "", &["SR:A"])),
        (413, save(&relay, "Bad", "anna", &much)),
        (400, save(&relay, "%FF", "anna", &["SR:A"])),
        (400, change(&relay, "PUT", "Bad", "anna", "{}")),
        (405, change(&relay, "POST", "Bad", "anna", "{}")),
    ] {
        assert_eq!(got, status, "{text}");
    }
    let (head, _) = raw(
        relay.address(),
        "PUT",
        "/saved/Bad",
        "Origin: https://other.example.org\r\nContent-Length: 13\r\n\r\n{\"names\": []}",
    );
    assert!(head.contains("403"), "{head}");
    assert_eq!(lists(&relay, "anna"), json!({ "Good": ["SR:A"] }));

    // A file that isn't the relay's is left as it is.
    fs::write(folder.join("user-anna.json"), "damaged").unwrap();
    let (status, text) = save(&relay, "Bad", "anna", &["SR:A"]);
    assert_eq!((status, text.contains("operator")), (500, true), "{text}");
    let left = fs::read_to_string(folder.join("user-anna.json")).unwrap();
    assert_eq!(left, "damaged");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn links_and_pipes_in_the_folder_neither_direct_what_is_written_nor_hold_up_the_relay() {
    let folder = folder();
    let foreign = file("foreign.json", r#"{ "lists": { "Foreign": ["SR:A"] } }"#);
    let text = fs::read_to_string(&foreign).unwrap();
    let pipe = |name: &str| {
        let path = folder.join(name);
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    };
    // The names of the files that a relay writes to see whether it can, and before it replaces a user's file.
    let trial = pipe(".writable");
    drop(start(&folder));
    fs::remove_file(&trial).unwrap();
    symlink(&foreign, &trial).unwrap();
    symlink(&foreign, folder.join("user-anna.json.new")).unwrap();
    pipe("user-bob.json.new");
    symlink(&foreign, folder.join("user-eve.json")).unwrap();
    pipe("user-joe.json");
    let relay = start(&folder);
    for user in ["anna", "bob"] {
        let (status, text) = save(&relay, "Mine", user, &["SR:A"]);
        assert_eq!(status, 200, "{user}: {text}");
        assert_eq!(lists(&relay, user), json!({ "Mine": ["SR:A"] }));
    }
    for user in ["eve", "joe"] {
        let (status, text) = save(&relay, "Mine", user, &["SR:A"]);
        assert_eq!(
            (status, text.contains("not a regular file")),
            (500, true),
            "{text}"
        );
        let answer = get(relay.address(), "/saved", &[("X-Forwarded-User", user)]);
        assert_eq!(answer.status, 500, "{}", answer.body);
    }
    assert_eq!(fs::read_to_string(&foreign).unwrap(), text);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn requests_for_a_damaged_file_do_not_flood_the_log() {
    let folder = folder();
    fs::write(folder.join("user-anna.json"), "damaged").unwrap();
    let mut relay = start(&folder);
    let begun = Instant::now();
    for _ in 0..100 {
        let answer = get(relay.address(), "/saved", &[("X-Forwarded-User", "anna")]);
        assert_eq!(answer.status, 500, "{}", answer.body);
    }
    // A line a second may be written, and ten at once.
    let most = 11 + begun.elapsed().as_secs() as usize;
    relay.signal("TERM");
    relay.wait_end(DEADLINE);
    relay.says("user-anna.json can't be used");
    let output = relay.output();
    let lines = output.lines().filter(|line| line.contains("can't be used"));
    assert!(lines.count() <= most, "{output}");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn relay_without_the_folder_says_so_and_one_without_the_key_has_no_lists() {
    let relay = Relay::start(Network::new(), &[]);
    let answer = get(relay.address(), "/saved", &[]);
    assert_eq!((answer.status, &*answer.body), (200, r#"{"lists":null}"#));
    assert_eq!(get(relay.address(), "/saved/A", &[]).status, 404);
    assert_eq!(save(&relay, "A", "", &["SR:A"]).0, 405);
    let folder = folder();
    fs::remove_dir(&folder).unwrap();
    let mut command = testbed::relay_command(Network::new());
    command.arg(flag(&folder));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("saved: "),
        "{text}"
    );
}
