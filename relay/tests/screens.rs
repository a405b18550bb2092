//! The facility's displays: which files of which folders are served to whom, and that no other file is.
//!
//! Topology: one relay with folders of displays, and plain connections to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::reload::HeldFile;
use serde_json::Value;
use testbed::{Answer, Network, Relay, eventually, file, get, prefix, relay_command};

const DISPLAY: &str = "<display version=\"2.0.0\"><name>Main</name></display>";

/// A new folder with one display.
fn folder(name: &str) -> PathBuf {
    let name = format!("{}{name}/main.bob", prefix().replace(':', "-"));
    let marker = file("screens", "");
    let path = marker.with_file_name(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, DISPLAY).unwrap();
    path.parent().unwrap().to_owned()
}

fn screens(prefix: &str, folder: &Path) -> String {
    format!("--screens={prefix}{}", folder.display())
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let line = answer
        .head
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_else(|| panic!("no {name} in {}", answer.head))
}

/// The paths in the list that a client gets.
fn listed(relay: &Relay, headers: &[(&str, &str)]) -> Vec<String> {
    let answer = get(relay.address(), "/screens/", headers);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    let files = list["files"].as_array().unwrap().iter();
    files
        .map(|file| file["path"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn display_that_another_program_has_leased_is_served_when_it_is_given_back() {
    let folder = folder("leased");
    let relay = Relay::start(Network::new(), &[&screens("", &folder)]);
    let held = HeldFile::new(&folder.join("main.bob"));
    let address = relay.address();
    let asked = thread::spawn(move || get(address, "/screens/main.bob", &[]));
    eventually("it waits", || {
        // This connection, and the one that waits.
        relay.metric("pvwire_connections_open") >= 2.0
    });
    drop(held);
    let answer = asked.join().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, DISPLAY));
}

#[test]
fn list_of_many_displays_is_written_by_the_computing_threads() {
    let folder = folder("many");
    for number in 0..3_000 {
        fs::write(folder.join(format!("{number}.bob")), "").unwrap();
    }
    let relay = Relay::start(Network::new(), &[&screens("", &folder)]);
    let before = relay.thread_cpu("compute");
    assert_eq!(listed(&relay, &[]).len(), 3_001);
    let computed = relay.thread_cpu("compute") - before;
    assert!(computed > Duration::from_millis(1), "{computed:?}");
}

#[test]
fn list_that_a_client_has_already_is_compared_by_the_computing_threads() {
    let folder = folder("known");
    for number in 0..3_000 {
        fs::write(folder.join(format!("{number}.bob")), "").unwrap();
    }
    let relay = Relay::start(Network::new(), &[&screens("", &folder)]);
    let list = get(relay.address(), "/screens/", &[]);
    let known = [("If-None-Match", header(&list, "etag"))];
    let cpu = || ["pvwire-relay", "compute"].map(|thread| relay.thread_cpu(thread));
    let before = cpu();
    for _ in 0..50 {
        assert_eq!(get(relay.address(), "/screens/", &known).status, 304);
    }
    let after = cpu();
    let [http, computed] = [0, 1].map(|thread| after[thread] - before[thread]);
    assert!(http < computed, "{http:?} beside {computed:?}");
}

#[test]
fn file_of_a_display_is_served_once_and_again_only_when_it_has_changed() {
    let folder = folder("a");
    fs::create_dir(folder.join("vacuum")).unwrap();
    fs::write(folder.join("vacuum/pump 1+2.svg"), "<svg/>").unwrap();
    let relay = Relay::start(Network::new(), &[&screens("", &folder)]);
    let main = || get(relay.address(), "/screens/main.bob", &[]);
    let first = main();
    assert_eq!((first.status, first.body.as_str()), (200, DISPLAY));
    assert_eq!(header(&first, "content-type"), "text/xml; charset=utf-8");
    assert!(header(&first, "content-security-policy").contains("sandbox"));
    assert_eq!(header(&first, "x-content-type-options"), "nosniff");
    assert_eq!(
        header(&first, "cross-origin-resource-policy"),
        "same-origin"
    );
    let picture = get(relay.address(), "/screens/vacuum/pump%201+2.svg", &[]);
    assert_eq!((picture.status, picture.body.as_str()), (200, "<svg/>"));
    assert_eq!(header(&picture, "content-type"), "image/svg+xml");

    let list = get(relay.address(), "/screens/", &[]);
    assert_eq!(listed(&relay, &[]), ["main.bob", "vacuum/pump 1+2.svg"]);
    for (path, answer) in [("/screens/main.bob", &first), ("/screens/", &list)] {
        let tag = header(answer, "etag").to_owned();
        for known in [tag.clone(), format!("\"0\", W/{tag}")] {
            let same = get(relay.address(), path, &[("If-None-Match", &known)]);
            assert_eq!((same.status, same.body.as_str()), (304, ""), "{path}");
            assert_eq!(header(&same, "etag"), tag);
        }
    }
    // The same size, in the same moment.
    fs::write(folder.join("main.bob"), DISPLAY.replace("Main", "Next")).unwrap();
    let tag = header(&first, "etag");
    let changed = get(
        relay.address(),
        "/screens/main.bob",
        &[("If-None-Match", tag)],
    );
    assert_eq!(changed.status, 200);
    assert!(changed.body.contains("Next"));
    let tag = header(&list, "etag").to_owned();
    eventually("the list has changed", || {
        get(relay.address(), "/screens/", &[("If-None-Match", &tag)]).status == 200
    });
    fs::remove_file(folder.join("main.bob")).unwrap();
    assert_eq!(main().status, 404);
}

#[test]
fn no_file_outside_the_folder_is_served() {
    let folder = folder("in");
    let outside = file(
        &format!("{}outside.bob", prefix().replace(':', "-")),
        "secret",
    );
    fs::write(outside.with_extension("txt"), "secret").unwrap();
    for (link, to) in [("link.bob", outside.clone()), ("up", folder.join(".."))] {
        symlink(to, folder.join(link)).unwrap();
    }
    symlink(folder.join("main.bob"), folder.join("inside.bob")).unwrap();
    symlink(".", folder.join("circle")).unwrap();
    fs::create_dir(folder.join(".git")).unwrap();
    for hidden in [
        ".git/a.bob",
        ".hidden.bob",
        "script.js",
        "page.html",
        "key.pem",
    ] {
        fs::write(folder.join(hidden), "secret").unwrap();
    }
    fs::create_dir(folder.join("folder.bob")).unwrap();
    let pipe = folder.join("pipe.bob");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    symlink("/dev/zero", folder.join("zero.bob")).unwrap();
    let large = fs::File::create(folder.join("large.bob")).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    let relay = Relay::start(Network::new(), &[&screens("ops=", &folder)]);
    let outside = outside.file_name().unwrap().to_str().unwrap();
    let status = |path: &str| {
        let answer = get(relay.address(), &format!("/screens/{path}"), &[]);
        assert!(!answer.body.contains("secret"), "{path}");
        answer.status
    };
    for path in [
        format!("ops/../{outside}"),
        format!("ops/%2e%2e/{outside}"),
        format!("ops/..%2f{outside}"),
        format!("ops/..%5c{outside}"),
        format!("ops/%252e%252e/{outside}"),
        format!("ops/up/{outside}"),
        format!("ops//{outside}"),
        outside.to_string(),
    ] {
        assert_eq!(status(&path), 404, "{path}");
    }
    for path in [
        "ops",
        "ops/",
        "ops/link.bob",
        "ops/.git/a.bob",
        "ops/.hidden.bob",
        "ops/script.js",
        "ops/page.html",
        "ops/key.pem",
        "ops/folder.bob",
        "ops/pipe.bob",
        "ops/zero.bob",
        "ops/main.bob%00.png",
        "ops/main.bob/",
        "ops/%ff.bob",
        "ops/%zz.bob",
        "ops//etc/passwd",
        "main.bob",
        "other/main.bob",
    ] {
        assert_eq!(status(path), 404, "{path}");
    }
    assert_eq!(status("ops/large.bob"), 413);
    assert_eq!(status("ops/main.bob"), 200);
    assert_eq!(status("ops/inside.bob"), 200);
    assert_eq!(status("ops/circle/main.bob"), 200);
    let list = listed(&relay, &[]);
    assert_eq!(list, ["ops/inside.bob", "ops/large.bob", "ops/main.bob"]);
}

#[test]
fn folders_are_for_those_who_may_read_them() {
    let [all, ops, experts] = ["all", "ops", "experts"].map(folder);
    fs::create_dir(all.join("ops")).unwrap();
    fs::write(all.join("ops/shadowed.bob"), "").unwrap();
    let relay = Relay::start(
        Network::new(),
        &[
            &screens("", &all),
            &screens("ops=", &ops),
            &screens("experts=", &experts),
            "--screens-access=ops=@operators,jane",
            "--screens-access=experts=*",
            "--auth=trusted-header",
            "--trusted-proxy=127.0.0.1",
            "--groups-header=X-Forwarded-Groups",
        ],
    );
    let john = [("X-Forwarded-User", "john")];
    let jane = [("X-Forwarded-User", "jane")];
    let operator = [
        ("X-Forwarded-User", "john"),
        ("X-Forwarded-Groups", "staff, operators"),
    ];
    for (headers, paths) in [
        (&john[..], &["experts/main.bob", "main.bob"][..]),
        (
            &jane[..],
            &["experts/main.bob", "main.bob", "ops/main.bob"][..],
        ),
        (
            &operator[..],
            &["experts/main.bob", "main.bob", "ops/main.bob"][..],
        ),
    ] {
        assert_eq!(listed(&relay, headers), paths, "{headers:?}");
        for path in ["main.bob", "ops/main.bob", "experts/main.bob"] {
            let answer = get(relay.address(), &format!("/screens/{path}"), headers);
            let expected = if paths.contains(&path) { 200 } else { 403 };
            assert_eq!(answer.status, expected, "{path} {headers:?}");
        }
    }
    assert_eq!(get(relay.address(), "/screens/main.bob", &[]).status, 401);
    let foreign = [
        ("X-Forwarded-User", "jane"),
        ("Origin", "https://elsewhere.example.org"),
    ];
    assert_eq!(get(relay.address(), "/screens/", &foreign).status, 403);
}

#[test]
fn folder_that_is_missing_and_a_prefix_used_twice_end_the_start() {
    let folder = folder("twice");
    let twice = screens("", &folder);
    let around = screens("around=", folder.parent().unwrap());
    let inside = screens("inside=", &folder);
    for (flags, says) in [
        (
            &["--screens=/nowhere/at/all"][..],
            "screens: /nowhere/at/all: ",
        ),
        (&["--screens=ops="][..], "PREFIX=FOLDER"),
        (
            &[twice.as_str(), twice.as_str()][..],
            "another prefix for each folder",
        ),
        (
            &[&twice, "--screens-access==jane"][..],
            "auth = jwt or trusted-header",
        ),
        (
            // Everybody could read its files by the path through the other folder.
            &[
                &around,
                &inside,
                "--auth=trusted-header",
                "--trusted-proxy=127.0.0.1",
                "--screens-access=inside=jane",
            ][..],
            "give both the same screens_access",
        ),
    ] {
        let mut command = relay_command(Network::new());
        let output = command
            .arg("--listen=127.0.0.1:0")
            .args(flags)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{flags:?}: {text}");
        assert!(text.contains(says), "{flags:?}: {text}");
    }
    // Without folders the path is like any other.
    let relay = Relay::start(Network::new(), &[]);
    assert_eq!(get(relay.address(), "/screens/", &[]).status, 404);
}
