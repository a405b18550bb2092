//! Checks that our declarations have the sizes, offsets and values that the C compiler sees in the
//! header, and that the shim compiles with a pvxs whose private parts aren't known.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use pvxs_sys::*;

macro_rules! layout {
    ($facts:ident, $($name:ident { $($field:ident $(= $c_field:literal)?),* })*) => {$(
        let name = stringify!($name);
        $facts.push((format!("sizeof({name})"), size_of::<$name>()));
        $(
            let field = [$($c_field,)? stringify!($field)][0];
            $facts.push((format!("offsetof({name}, {field})"), offset_of!($name, $field)));
        )*
    )*};
}

macro_rules! constants {
    ($facts:ident, $($name:ident),*) => {$(
        $facts.push((stringify!($name).to_owned(), usize::from($name)));
    )*};
}

#[test]
fn declarations_match_the_header() {
    let mut facts: Vec<(String, usize)> = Vec::new();
    layout! { facts,
        pvs_text { bytes, length }
        pvs_item {
            name, id, text, number, array, elements, count, children, r#type = "type", changed
        }
        pvs_type { id, signature, kind, code, peer }
        pvs_metadata {
            units, form, description, choices, choice_count, display_low, display_high,
            control_low, control_high, control_min_step, alarm_low, warning_low, warning_high,
            alarm_high, precision, has_precision
        }
        pvs_update { time_ns, user_tag, severity, status, message, items, item_count, squashed }
        pvs_monitor_calls { connected, disconnected, broken, metadata, update, unreadable, failed, release }
        pvs_range { start, bytes }
        pvs_operation_calls { sending, done, release }
        pvs_server_calls { found, release }
    }
    constants! { facts,
        PVS_SCALAR, PVS_ARRAY, PVS_ENUM, PVS_STRUCTURE,
        PVS_DONE, PVS_DISCONNECTED, PVS_REMOTE, PVS_INVALID, PVS_UNSURE
    }
    let mut source = String::from("#include \"pvs.h\"\n");
    for (c, rust) in &facts {
        writeln!(source, "_Static_assert({c} == {rust}, \"{c}\");").expect("into a string");
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pvs_layout.c");
    std::fs::write(&file, source).expect("writable");

    let output = Command::new("cc")
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("shim"))
        .arg(&file)
        .output()
        .expect("a C compiler");

    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn shim_compiles_without_the_private_parts_of_pvxs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("shim");
    let sources = std::fs::read_dir(&folder).expect("readable");
    let sources = sources.map(|entry| entry.expect("readable").path());
    let sources = sources.filter(|path| path.extension().is_some_and(|ending| ending == "cpp"));
    let includes = std::env::split_paths(env!("PVXS_SYS_INCLUDE"));

    let output = Command::new("c++")
        .args([
            "-std=c++17",
            "-fsyntax-only",
            "-Wall",
            "-Werror=return-type",
        ])
        .arg("-DPVS_PUBLIC_API")
        .args(includes.flat_map(|folder| ["-isystem".into(), folder.into_os_string()]))
        .args(sources)
        .output()
        .expect("a C++ compiler");

    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
