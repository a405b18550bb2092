//! Compares the tables with the schema that applications see.

use super::*;

/// The tables in the schema's notation, without descriptions, one definition after another.
fn printed(types: &[Type]) -> String {
    let mut text = String::new();
    let built_in = ["Int", "Float", "String", "Boolean", "ID"];
    let ours = |ty: &&Type| {
        !ty.name.is_empty() && !ty.name.starts_with("__") && !built_in.contains(&ty.name)
    };
    for ty in types.iter().filter(ours) {
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

fn assert_same(types: &[Type], sdl: &str) {
    let roots = "schema{query:Query mutation:Mutation subscription:Subscription}";
    let (ours, theirs) = (tokens(&printed(types)), tokens(sdl));
    let theirs = theirs
        .strip_prefix(tokens(roots).as_slice())
        .unwrap_or(&theirs);
    for (at, (our, their)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(our, their, "after {:?}", &theirs[at.saturating_sub(6)..at]);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn tables_say_the_same_as_the_schema_that_applications_see() {
    assert_same(TYPES, include_str!("../../graphql/sdl/pvwire.graphql"));
    assert_same(
        Schema::Coniql.types(),
        include_str!("../../graphql/sdl/coniql.graphql"),
    );
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
        (id::HISTORY, "History"),
        (id::SCHEMA, "__Schema"),
        (id::DIRECTIVE_LOCATION, "__DirectiveLocation"),
    ] {
        assert_eq!(named(at).name, name);
        assert_eq!(Schema::Pvwire.find(name), Some(at));
    }
    assert_eq!(TYPES.len(), usize::from(id::DIRECTIVE_LOCATION) + 1);
}
