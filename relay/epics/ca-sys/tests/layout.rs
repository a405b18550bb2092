//! Checks that our declarations have the sizes, offsets and values that the C compiler sees in the
//! headers.

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use ca_sys::*;

/// A number on which C and Rust must agree: an expression in C, and its value in Rust.
struct Fact {
    c: String,
    rust: i64,
}

fn fact(c: impl Into<String>, rust: impl TryInto<i64>) -> Fact {
    Fact {
        c: c.into(),
        rust: rust.try_into().ok().expect("fits an i64"),
    }
}

macro_rules! layout {
    ($facts:ident, $($name:ident { $($field:ident $(= $c_field:literal)?),* })*) => {$(
        let c_type = concat!("struct ", stringify!($name));
        $facts.push(fact(format!("sizeof({c_type})"), size_of::<$name>()));
        $(
            let field = [$($c_field,)? stringify!($field)][0];
            $facts.push(fact(format!("offsetof({c_type}, {field})"), offset_of!($name, $field)));
        )*
    )*};
}

macro_rules! constants {
    ($facts:ident, $($name:ident),*) => {$(
        $facts.push(fact(stringify!($name), $name));
    )*};
}

fn facts() -> Vec<Fact> {
    let mut facts = Vec::new();
    layout! { facts,
        connection_handler_args { chid, op }
        ca_access_rights {}
        access_rights_handler_args { chid, ar }
        event_handler_args { usr, chid, r#type = "type", count, dbr, status }
        exception_handler_args {
            usr, chid, r#type = "type", count, addr, stat, op, ctx, pFile, lineNo
        }
        dbr_time_string { status, severity, stamp, value }
        dbr_time_short { status, severity, stamp, value }
        dbr_time_float { status, severity, stamp, value }
        dbr_time_enum { status, severity, stamp, value }
        dbr_time_char { status, severity, stamp, value }
        dbr_time_long { status, severity, stamp, value }
        dbr_time_double { status, severity, stamp, value }
        dbr_ctrl_enum { status, severity, no_str, strs, value }
    }
    macro_rules! ctrl {
        ($($name:ident),*) => {
            layout! { facts, $($name {
                status, severity, units, upper_disp_limit, lower_disp_limit, upper_alarm_limit,
                upper_warning_limit, lower_warning_limit, lower_alarm_limit, upper_ctrl_limit,
                lower_ctrl_limit, value
            })* }
        };
    }
    ctrl!(
        dbr_ctrl_short,
        dbr_ctrl_float,
        dbr_ctrl_char,
        dbr_ctrl_long,
        dbr_ctrl_double
    );
    layout! { facts,
        dbr_ctrl_float { precision }
        dbr_ctrl_double { precision }
    }
    facts.push(fact("sizeof(epicsTimeStamp)", size_of::<epicsTimeStamp>()));
    facts.push(fact(
        "offsetof(epicsTimeStamp, nsec)",
        offset_of!(epicsTimeStamp, nsec),
    ));
    facts.push(fact("sizeof(chtype)", size_of::<chtype>()));
    facts.push(fact("sizeof(capri)", size_of::<capri>()));
    constants! { facts,
        CA_OP_CONN_UP, CA_OP_CONN_DOWN, CA_OP_PUT, ca_enable_preemptive_callback,
        DBE_VALUE, DBE_ALARM, DBE_PROPERTY,
        DBR_STRING, DBR_SHORT, DBR_FLOAT, DBR_ENUM, DBR_CHAR, DBR_LONG, DBR_DOUBLE,
        DBR_TIME_STRING, DBR_CTRL_STRING, DBR_PUT_ACKT, DBR_PUT_ACKS,
        MAX_STRING_SIZE, MAX_UNITS_SIZE, MAX_ENUM_STRING_SIZE, MAX_ENUM_STATES,
        CA_M_SUCCESS, ECA_NORMAL, ECA_DISCONN, ECA_DBLCHNL, ECA_NORDACCESS,
        ECA_NOWTACCESS, ECA_PUTFAIL, ECA_BADCOUNT
    }
    // The types with alarm and with metadata are in the order of the native types.
    for (native, code) in [
        ("SHORT", DBR_SHORT),
        ("FLOAT", DBR_FLOAT),
        ("ENUM", DBR_ENUM),
        ("CHAR", DBR_CHAR),
        ("LONG", DBR_LONG),
        ("DOUBLE", DBR_DOUBLE),
    ] {
        facts.push(fact(format!("DBR_TIME_{native}"), DBR_TIME_STRING + code));
        facts.push(fact(format!("DBR_CTRL_{native}"), DBR_CTRL_STRING + code));
    }
    facts.push(fact("bits(1, 0)", READ_ACCESS));
    facts.push(fact("bits(0, 1)", WRITE_ACCESS));
    facts
}

#[test]
fn declarations_match_the_headers() {
    let facts = facts();
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n#include <cadef.h>\n\
         #include <caerr.h>\n#include <db_access.h>\n#include <epicsTypes.h>\n\
         static unsigned bits(unsigned read, unsigned write) {\n\
         struct ca_access_rights rights; unsigned all = 0;\n\
         memset(&rights, 0, sizeof rights);\n\
         rights.read_access = read; rights.write_access = write;\n\
         memcpy(&all, &rights, sizeof all); return all; }\n\
         int main(void) {\n",
    );
    for fact in &facts {
        writeln!(source, "printf(\"%lld\\n\", (long long)({}));", fact.c).unwrap();
    }
    source.push_str("return 0; }\n");

    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (c_file, program) = (dir.join("layout.c"), dir.join("layout"));
    std::fs::write(&c_file, source).unwrap();
    let built = Command::new("cc")
        .args(
            std::env::split_paths(env!("CA_SYS_INCLUDE")).map(|dir| format!("-I{}", dir.display())),
        )
        .arg("-o")
        .args([&program, &c_file])
        .output()
        .expect("the C compiler runs");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let ran = Command::new(&program).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let values: Vec<i64> = text.lines().map(|line| line.parse().unwrap()).collect();

    assert_eq!(values.len(), facts.len());
    for (fact, value) in facts.iter().zip(values) {
        assert_eq!(fact.rust, value, "{} is {value} in C", fact.c);
    }
}

#[test]
fn library_answers() {
    // SAFETY: the function takes any code and returns a static string.
    let text = unsafe { std::ffi::CStr::from_ptr(ca_message(ECA_NORMAL.into())) };

    assert_eq!(text.to_str().unwrap(), "Normal successful completion");
}
