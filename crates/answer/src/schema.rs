//! The JSON Schema of a document, made from its type.

use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::SCHEMA;

/// The schema of the document of `hugetext COMMAND`: what `body` makes of its type, with the fields of the frame (see
/// [`crate::output`]).
pub fn framed(command: &str, body: fn(SchemaGenerator) -> Schema) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.into_generator();
    let errors = generator.subschema_for::<Vec<Failure>>();
    let mut schema = body(generator);
    schema.insert("title".to_owned(), format!("hugetext {command}").into());
    let frame = [
        ("schema", json!({ "const": SCHEMA })),
        ("command", json!({ "const": command })),
        ("errors", errors.to_value()),
    ];
    for (name, value) in frame {
        let fields = keyword(&mut schema, "properties", json!({}));
        if let Some(fields) = fields.and_then(Value::as_object_mut) {
            fields.insert(name.to_owned(), value);
        }
        let required = keyword(&mut schema, "required", json!([]));
        if let Some(names) = required.and_then(Value::as_array_mut) {
            names.push(name.into());
        }
    }
    schema
}

/// A keyword of a schema, which is `empty` if the schema lacks it.
fn keyword<'s>(schema: &'s mut Schema, name: &str, empty: Value) -> Option<&'s mut Value> {
    if schema.get(name).is_none() {
        schema.insert(name.to_owned(), empty);
    }
    schema.get_mut(name)
}
