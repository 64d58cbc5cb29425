//! JSON Schemas of the types that are written as one number or word.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{Geometry, Leaf, Perms, Version};

/// The schema of `$type`, which is written as `$json`: its name, and the meaning of the value.
macro_rules! written_as {
    ($type:ty, $json:ty, $name:literal, $meaning:literal) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let mut schema = <$json>::json_schema(generator);
                schema.insert("description".to_owned(), $meaning.into());
                schema
            }
        }
    };
}

written_as!(Leaf, u64, "Leaf", "The size of a leaf or page, in bytes.");
written_as!(Perms, String, "Perms", "Access rights, such as r-x.");
written_as!(
    Version,
    String,
    "Version",
    "A kernel version, such as 6.18."
);
written_as!(
    Geometry,
    String,
    "Geometry",
    "The leaf sizes of an architecture and base page, such as x86-64 or arm64-16k."
);
