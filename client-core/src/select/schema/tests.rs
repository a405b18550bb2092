//! Compares the tables with the schema that applications see.

use super::*;

/// The tables in the schema's notation, without descriptions, one definition after another.
fn printed() -> String {
    let mut text = String::from("schema{query:Query mutation:Mutation subscription:Subscription}");
    let built_in = ["Int", "Float", "String", "Boolean", "ID"];
    let ours = |ty: &&Type| !ty.name.starts_with("__") && !built_in.contains(&ty.name);
    for ty in TYPES.iter().filter(ours) {
        match ty.kind {
            Kind::Scalar => text += &format!("scalar {} ", ty.name),
            Kind::Enum => text += &format!("enum {}{{{}}}", ty.name, ty.values.join(" ")),
            Kind::Object => {
                let fields: Vec<_> = ty.fields.iter().map(print_field).collect();
                text += &format!("type {}{{{}}}", ty.name, fields.join(" "));
            }
        }
    }
    text
}

fn print_field(field: &Field) -> String {
    let arguments: Vec<_> = field
        .arguments
        .iter()
        .map(|argument| {
            let default = match argument.default {
                "" => String::new(),
                default => format!("={default}"),
            };
            format!("{}:{}{default}", argument.name, argument.ty.to_text())
        })
        .collect();
    let arguments = match arguments.len() {
        0 => String::new(),
        _ => format!("({})", arguments.join(" ")),
    };
    format!("{}{arguments}:{}", field.name, field.ty.to_text())
}

/// Names and punctuation marks, without descriptions.
fn tokens(sdl: &str) -> Vec<String> {
    let without: String = sdl.split("\"\"\"").step_by(2).collect();
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in without.chars() {
        let word = c.is_alphanumeric() || c == '_';
        match tokens.last_mut() {
            Some(last) if word && in_word => last.push(c),
            _ if c.is_whitespace() || c == ',' => {}
            _ => tokens.push(c.to_string()),
        }
        in_word = word;
    }
    tokens
}

#[test]
fn tables_say_the_same_as_the_schema_that_applications_see() {
    let file = include_str!("../../../../wasm-client/ts/graphql/sdl.ts");
    let escaped = file.replace("\\`", "'");
    let sdl = escaped
        .split('`')
        .nth(1)
        .expect("the schema between backticks");
    let (ours, theirs) = (tokens(&printed()), tokens(sdl));
    for (at, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(our, their, "after {:?}", &theirs[at.saturating_sub(6)..at]);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn types_that_the_code_knows_stand_in_their_places() {
    for (at, name) in [
        (id::QUERY, "Query"),
        (id::CHANNEL, "Channel"),
        (id::ID, "ID"),
        (id::STRUCTURE, "Structure"),
        (id::ND_ATTRIBUTE, "NDAttribute"),
        (id::STATE, "ConnectionState"),
        (id::SCHEMA, "__Schema"),
        (id::DIRECTIVE_LOCATION, "__DirectiveLocation"),
    ] {
        assert_eq!(named(at).name, name);
        assert_eq!(find(name), Some(at));
    }
    assert_eq!(TYPES.len(), usize::from(id::DIRECTIVE_LOCATION) + 1);
}
