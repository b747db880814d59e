//! Validation against a JSON Schema, of the keywords that can be enforced. A schema with another keyword is refused, so that none is
//! ignored.

use regex::Regex;
use serde_json::{Map, Value};

/// The deepest schema and value.
const MAX_DEPTH: usize = 64;

/// Keywords that say nothing about a value. `format` is among them, as the standard has it.
const ANNOTATIONS: [&str; 14] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
];

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// A schema whose keywords are all known.
pub struct Schema<'a>(&'a Value);

impl<'a> Schema<'a> {
    /// Checks a schema.
    ///
    /// # Errors
    /// The keyword that is unknown or has a wrong value.
    pub fn new(schema: &'a Value) -> Result<Self, String> {
        check(schema, schema, 0)?;
        Ok(Self(schema))
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn validate(&self, value: &Value) -> Result<(), String> {
        validate(self.0, self.0, value, "the answer", 0)
    }
}

fn check(root: &Value, schema: &Value, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err("it is nested too deeply".into());
    }
    let keywords = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return Err("a schema is an object".into()),
    };
    for (keyword, value) in keywords {
        let wrong = || Err(format!("`{keyword}` has a wrong value"));
        let inner = |schema: &Value| check(root, schema, depth + 1);
        match keyword.as_str() {
            "$defs" | "definitions" | "properties" => {
                let Some(schemas) = value.as_object() else { return wrong() };
                schemas.values().try_for_each(inner)?;
            }
            "additionalProperties" | "items" | "not" => inner(value)?,
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value.as_array() {
                Some(schemas) if !schemas.is_empty() => schemas.iter().try_for_each(inner)?,
                _ => return wrong(),
            },
            "$ref" => {
                let Some(target) = value.as_str().and_then(|target| resolve(root, target)) else {
                    return Err("`$ref` must name a part of the schema itself, such as #/$defs/NAME".into());
                };
                if !target.is_object() && !target.is_boolean() {
                    return wrong();
                }
            }
            "type" => {
                let is_type = |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
                let ok = match value {
                    Value::Array(names) => !names.is_empty() && names.iter().all(is_type),
                    other => is_type(other),
                };
                if !ok {
                    return wrong();
                }
            }
            "enum" if !value.is_array() => return wrong(),
            "required" if !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)) => return wrong(),
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties"
                if value.as_u64().is_none() =>
            {
                return wrong();
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => return wrong(),
            "pattern" => match value.as_str().map(Regex::new) {
                Some(Ok(_)) => {}
                Some(Err(_)) => return Err(format!("`pattern` {value} is no regular expression that is known here")),
                None => return wrong(),
            },
            "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => return wrong(),
            "uniqueItems" if !value.is_boolean() => return wrong(),
            "enum" | "const" | "required" | "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
            | "maxProperties" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
            | "uniqueItems" => {}
            annotation if ANNOTATIONS.contains(&annotation) => {}
            _ => return Err(format!("`{keyword}` is not enforced here")),
        }
    }
    Ok(())
}

/// The part of a schema that a reference such as `#/$defs/NAME` names.
fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    root.pointer(target.strip_prefix('#')?)
}

fn validate(root: &Value, schema: &Value, value: &Value, place: &str, depth: usize) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(true) => return Ok(()),
        Value::Object(keywords) => keywords,
        _ => return Err(format!("{place} is not allowed")),
    };
    // Also ends references that lead to themselves.
    if depth > MAX_DEPTH {
        return Err(format!("{place} is nested too deeply"));
    }
    let fails = |what: &str| Err(format!("{place} {what}"));
    let matches = |schema: &Value| validate(root, schema, value, place, depth + 1).is_ok();
    for (keyword, wanted) in keywords {
        let number = wanted.as_f64().unwrap_or_default();
        let list = || wanted.as_array().map(Vec::as_slice).unwrap_or_default();
        match keyword.as_str() {
            "$ref" => {
                let target = resolve(root, wanted.as_str().unwrap_or_default()).unwrap_or(&Value::Bool(false));
                validate(root, target, value, place, depth + 1)?;
            }
            "type" => {
                let ok = match wanted {
                    Value::Array(names) => names.iter().any(|name| is_type(value, name)),
                    name => is_type(value, name),
                };
                if !ok {
                    return fails(&format!("is not of type {wanted}"));
                }
            }
            "enum" if !list().iter().any(|allowed| equal(allowed, value)) => return fails("is none of the values"),
            "const" if !equal(wanted, value) => return fails("is not the value"),
            "allOf" => list().iter().try_for_each(|schema| validate(root, schema, value, place, depth + 1))?,
            "anyOf" if !list().iter().any(matches) => return fails("fits none of the alternatives"),
            "oneOf" if list().iter().filter(|schema| matches(schema)).count() != 1 => {
                return fails("does not fit exactly one of the alternatives");
            }
            "not" if matches(wanted) => return fails("fits what it must not"),
            "minimum" if value.as_f64().is_some_and(|value| value < number) => return fails("is too small"),
            "maximum" if value.as_f64().is_some_and(|value| value > number) => return fails("is too large"),
            "exclusiveMinimum" if value.as_f64().is_some_and(|value| value <= number) => return fails("is too small"),
            "exclusiveMaximum" if value.as_f64().is_some_and(|value| value >= number) => return fails("is too large"),
            "multipleOf" if value.as_f64().is_some_and(|value| !is_multiple(value, number)) => {
                return fails("is no multiple");
            }
            "minLength" if value.as_str().is_some_and(|text| (text.chars().count() as f64) < number) => {
                return fails("is too short");
            }
            "pattern" if value.as_str().is_some_and(|text| !matches_pattern(wanted, text)) => {
                return fails("does not match the pattern");
            }
            "maxLength" if value.as_str().is_some_and(|text| text.chars().count() as f64 > number) => {
                return fails("is too long");
            }
            _ => {}
        }
    }
    match value {
        Value::Object(fields) => validate_object(root, keywords, fields, place, depth),
        Value::Array(items) => validate_array(root, keywords, items, place, depth),
        _ => Ok(()),
    }
}

fn validate_object(
    root: &Value,
    keywords: &Map<String, Value>,
    fields: &Map<String, Value>,
    place: &str,
    depth: usize,
) -> Result<(), String> {
    for name in keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{place} has no {name:?}"));
        }
    }
    check_count(keywords, fields.len(), "minProperties", "maxProperties", place)?;
    let properties = keywords.get("properties").and_then(Value::as_object);
    for (name, value) in fields {
        let schema = properties.and_then(|properties| properties.get(name)).or(keywords.get("additionalProperties"));
        if let Some(schema) = schema {
            validate(root, schema, value, &format!("{place}.{name}"), depth + 1)?;
        }
    }
    Ok(())
}

fn validate_array(
    root: &Value,
    keywords: &Map<String, Value>,
    items: &[Value],
    place: &str,
    depth: usize,
) -> Result<(), String> {
    check_count(keywords, items.len(), "minItems", "maxItems", place)?;
    if keywords.get("uniqueItems") == Some(&Value::Bool(true))
        && items.iter().enumerate().any(|(at, item)| items[..at].iter().any(|before| equal(before, item)))
    {
        return Err(format!("{place} has an item twice"));
    }
    let first = keywords.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (at, item) in items.iter().enumerate() {
        if let Some(schema) = first.get(at).or(keywords.get("items")) {
            validate(root, schema, item, &format!("{place}[{at}]"), depth + 1)?;
        }
    }
    Ok(())
}

fn check_count(
    keywords: &Map<String, Value>,
    count: usize,
    least: &str,
    most: &str,
    place: &str,
) -> Result<(), String> {
    let limit = |name: &str| keywords.get(name).and_then(Value::as_u64);
    if limit(least).is_some_and(|least| (count as u64) < least) || limit(most).is_some_and(|most| count as u64 > most) {
        return Err(format!("{place} has {count} entries"));
    }
    Ok(())
}

fn is_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => false,
    }
}

fn matches_pattern(pattern: &Value, text: &str) -> bool {
    pattern.as_str().and_then(|pattern| Regex::new(pattern).ok()).is_some_and(|pattern| pattern.is_match(text))
}

/// 1 and 1.0 are one number in JSON.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

fn is_multiple(value: f64, of: f64) -> bool {
    let quotient = value / of;
    (quotient - quotient.round()).abs() < 1e-9 * quotient.abs().max(1.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_held_to_every_keyword() {
        for (schema, good, bad) in [
            (json!({ "type": "object" }), json!({}), json!([])),
            (json!({ "type": ["string", "null"] }), json!(null), json!(1)),
            (json!({ "type": "integer" }), json!(2.0), json!(2.5)),
            (json!({ "enum": [1, "a"] }), json!(1.0), json!(2)),
            (json!({ "const": "a" }), json!("a"), json!("b")),
            (json!({ "required": ["a"] }), json!({ "a": null }), json!({})),
            (json!({ "properties": { "a": { "type": "string" } } }), json!({ "a": "x", "b": 1 }), json!({ "a": 1 })),
            (json!({ "properties": { "a": {} }, "additionalProperties": false }), json!({ "a": 1 }), json!({ "b": 1 })),
            (json!({ "items": { "type": "number" } }), json!([1, 2]), json!([1, "b"])),
            (json!({ "prefixItems": [{ "type": "string" }], "items": false }), json!(["a"]), json!(["a", 1])),
            (json!({ "minItems": 1, "maxItems": 2 }), json!([1]), json!([])),
            (json!({ "uniqueItems": true }), json!([1, 2]), json!([1, 1.0])),
            (json!({ "minLength": 2, "maxLength": 3 }), json!("äö"), json!("ä")),
            (json!({ "minimum": 1, "exclusiveMaximum": 3 }), json!(1), json!(3)),
            (json!({ "pattern": "^[a-z]{2}$" }), json!("de"), json!("DEU")),
            (json!({ "multipleOf": 0.1 }), json!(0.3), json!(0.35)),
            (json!({ "minProperties": 1 }), json!({ "a": 1 }), json!({})),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!(null), json!(1)),
            (json!({ "oneOf": [{ "minimum": 5 }, { "maximum": 7 }] }), json!(9), json!(6)),
            (json!({ "allOf": [{ "minimum": 5 }, { "maximum": 7 }] }), json!(6), json!(9)),
            (json!({ "not": { "type": "string" } }), json!(1), json!("a")),
            (
                json!({ "$ref": "#/$defs/n", "$defs": { "n": { "type": "object", "properties": { "next": { "$ref": "#/$defs/n" } } } } }),
                json!({ "next": { "next": {} } }),
                json!({ "next": { "next": 1 } }),
            ),
            (json!(true), json!(1), Value::Null),
        ] {
            let checked = Schema::new(&schema).unwrap();
            assert_eq!(checked.validate(&good), Ok(()), "{schema}");
            if schema != json!(true) {
                assert!(checked.validate(&bad).is_err(), "{schema} {bad}");
            }
        }
    }

    #[test]
    fn what_cannot_be_enforced_is_refused() {
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "items": inner }));
        for schema in [
            json!(5),
            json!({ "type": "strange" }),
            json!({ "type": [] }),
            json!({ "pattern": "(" }),
            json!({ "pattern": 1 }),
            json!({ "if": {}, "then": {} }),
            json!({ "properties": { "a": { "patternProperties": {} } } }),
            json!({ "$ref": "https://example.com/schema.json" }),
            json!({ "$ref": "#/$defs/missing" }),
            json!({ "anyOf": [] }),
            json!({ "minItems": -1 }),
            json!({ "required": [1] }),
            json!({ "multipleOf": 0 }),
            json!({ "items": [{}] }),
            deep,
        ] {
            assert!(Schema::new(&schema).is_err(), "{schema}");
        }
        let circle = json!({ "$ref": "#" });
        assert!(Schema::new(&circle).unwrap().validate(&json!(1)).is_err(), "a reference to itself ends");
    }
}
