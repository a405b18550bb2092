//! Records of every kind that Channel Access serves, with all of their metadata.

/// The kinds; the PVs differ in type, shape or record type.
pub const KINDS: [&str; 30] = [
    "ai",
    "ao",
    "calc",
    "longin",
    "longout",
    "int64out",
    "bi",
    "bo",
    "mbbi",
    "mbbo",
    "stringin",
    "stringout",
    "lsi",
    "lso",
    "CHAR",
    "UCHAR",
    "SHORT",
    "USHORT",
    "LONG",
    "ULONG",
    "INT64",
    "UINT64",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "ENUM",
    "one element of many",
    "one of one",
    "one text of one",
    "empty",
];

/// Kinds whose value is a number with alarm limits.
pub const ANALOG: [&str; 6] = ["ai", "ao", "calc", "longin", "longout", "int64out"];
/// Kinds whose value is one of some labels.
pub const CHOICES: [&str; 4] = ["bi", "bo", "mbbi", "mbbo"];
/// Kinds whose value is a text.
pub const TEXTS: [&str; 4] = ["stringin", "stringout", "lsi", "lso"];

/// A record of this kind. What it shows, alarm and metadata too, differs from one `variant` to the
/// next. Each time it is processed it says so, whether or not its value changed.
pub fn record(kind: &str, name: &str, variant: u32) -> String {
    let analog = |record: &str, whole: bool| {
        let value = analog_value(variant, whole);
        let value = match record {
            "calc" => format!("field(CALC, \"A\") field(INPA, \"{value}\")"),
            _ => format!("field(VAL, \"{value}\")"),
        };
        let (precision, more) = (variant % 6, variant % 3);
        let whole = if whole {
            ""
        } else {
            &format!("field(PREC, \"{precision}\")")
        };
        format!(
            r#"record({record}, "{name}") {{
                {value} {whole} field(PINI, "YES") field(MDEL, "-1") field(ADEL, "-1")
                field(EGU, "unit{variant}") field(HOPR, "{high}") field(LOPR, "-{high}")
                field(HIHI, "{hihi}") field(HIGH, "1{more}") field(LOW, "-1{more}")
                field(LOLO, "-{hihi}") field(HHSV, "MAJOR") field(HSV, "MINOR")
                field(LSV, "MINOR") field(LLSV, "MAJOR")
            }}"#,
            high = 100 + variant,
            hihi = 20 + more,
        )
    };
    let choices = |record: &str, fields: &str| {
        let value = variant % 2;
        format!(
            r#"record({record}, "{name}") {{ field(VAL, "{value}") field(PINI, "YES") {fields} }}"#
        )
    };
    let two =
        format!(r#"field(ZNAM, "off {variant}") field(ONAM, "on {variant}") field(OSV, "MINOR")"#);
    let three = format!(
        r#"field(ZRST, "zero {variant}") field(ONST, "one") field(TWST, "two {variant}")
           field(ONSV, "MAJOR")"#
    );
    let text = |record: &str, link: &str, size: &str| {
        format!(
            r#"record({record}, "{name}") {{
                {size} field({link}, {{const: "text {variant}"}}) field(PINI, "YES")
                field(MPST, "Always") field(APST, "Always") field(SIMS, "MAJOR")
            }}"#
        )
    };
    let array = |element: &str, most: u32, elements: &str| {
        let units = match element {
            "STRING" | "ENUM" => String::new(),
            _ => format!(
                "field(EGU, \"unit{variant}\") field(HOPR, \"{}\")",
                variant % 100
            ),
        };
        let link = match elements {
            "" => String::new(),
            elements => format!("field(INP, [{elements}])"),
        };
        format!(
            r#"record(waveform, "{name}") {{
                field(FTVL, "{element}") field(NELM, "{most}") {link} field(PINI, "YES")
                field(PREC, "{}") field(SIMS, "MAJOR") {units}
            }}"#,
            variant % 7
        )
    };
    let few = variant % 100;
    match kind {
        "ai" | "ao" | "calc" => analog(kind, false),
        "longin" | "longout" | "int64out" => analog(kind, true),
        "bi" | "bo" => choices(kind, &two),
        "mbbi" | "mbbo" => choices(kind, &three),
        "stringin" | "lsi" => text(kind, "INP", size(kind)),
        "stringout" | "lso" => text(kind, "DOL", size(kind)),
        "CHAR" | "SHORT" => array(kind, 5, &format!("-1, {few}, 127")),
        "UCHAR" => array(kind, 300, &format!("255, {few}")),
        "USHORT" => array(kind, 6, &format!("65535, {few}")),
        "LONG" => array(kind, 7, &format!("-2147483648, {few}")),
        "ULONG" => array(kind, 7, &format!("4294967295, {few}")),
        "INT64" | "UINT64" => array(kind, 4, &format!("{few}, 9007199254740992")),
        "FLOAT" => array(kind, 8, &format!("0.1, {few}.5, -1e30")),
        "DOUBLE" => array(kind, 2000, &format!("0.1, {few}.7, -1e300, 5e-324")),
        "STRING" => array(kind, 4, &format!(r#""", "text {variant}", "°C""#)),
        "ENUM" => array(kind, 4, &format!("1, {few}")),
        "one element of many" => array("DOUBLE", 9, &format!("{few}.25")),
        "one of one" => array("FLOAT", 1, &format!("{few}.5")),
        "one text of one" => array("STRING", 1, &format!(r#""alone {variant}""#)),
        "empty" => array("SHORT", 5, ""),
        other => panic!("no kind {other}"),
    }
}

fn size(kind: &str) -> &'static str {
    match kind {
        "lsi" | "lso" => r#"field(SIZV, "3001")"#,
        _ => "",
    }
}

/// Calm, HIGH, HIHI, LOW and LOLO take turns.
pub fn analog_value(variant: u32, whole: bool) -> String {
    let value = [0, 15, 30, -15, -30][variant as usize % 5];
    if whole {
        format!("{value}")
    } else {
        format!("{value}.{}", variant % 9 + 1)
    }
}
