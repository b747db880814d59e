//! Validation against a JSON Schema, of the keywords that can be enforced. A schema with another keyword is refused, so that none is
//! ignored.
//!
//! Clients write the schemas, so the cost of one is bounded: its size, its depth, its patterns and the size of their automata, the
//! schemas that one value is held to, and the steps of a validation.

use std::cell::Cell;
use std::collections::HashMap;

use regex_automata::meta::{Config, Regex};
use serde_json::{Map, Value};

/// The deepest schema and value.
const MAX_DEPTH: usize = 64;

/// Values in the schemas of a request, and bytes of their texts and names.
const MAX_VALUES: usize = 20_000;
const MAX_BYTES: usize = 256 << 10;

/// Bytes of the automata of the patterns in the schemas of a request.
const MAX_PATTERN_BYTES: usize = 8 << 20;

/// Schemas that one value is held to by `$ref`, `allOf`, `anyOf`, `oneOf` and `not`.
const MAX_ALTERNATIVES: usize = 4096;

/// Steps of a validation: a keyword is one, and so are 64 bytes that a pattern reads.
const MAX_STEPS: usize = 5_000_000;

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

/// The remaining size of the schemas of one request.
pub struct Budget {
    values: usize,
    bytes: usize,
    pattern_bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { values: MAX_VALUES, bytes: MAX_BYTES, pattern_bytes: MAX_PATTERN_BYTES }
    }
}

impl Budget {
    /// Takes the size of a schema.
    ///
    /// # Errors
    /// The limit that is exceeded.
    pub fn take(&mut self, schema: &Value) -> Result<(), String> {
        self.take_value(schema, 0)
    }

    fn take_value(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        // A level of a schema is two levels of JSON: its keyword and the inner schema.
        if depth > 2 * MAX_DEPTH {
            return Err("it is nested too deeply".into());
        }
        self.values = self.values.checked_sub(1).ok_or_else(|| format!("it has more than {MAX_VALUES} values"))?;
        match value {
            Value::String(text) => self.take_bytes(text.len()),
            Value::Array(values) => values.iter().try_for_each(|value| self.take_value(value, depth + 1)),
            Value::Object(fields) => fields.iter().try_for_each(|(name, value)| {
                self.take_bytes(name.len())?;
                self.take_value(value, depth + 1)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| format!("its texts have more than {MAX_BYTES} bytes"))?;
        Ok(())
    }
}

/// A schema whose keywords are all known.
pub struct Schema<'a> {
    root: &'a Value,
    patterns: HashMap<&'a str, Regex>,
}

impl<'a> Schema<'a> {
    /// Compiles a schema whose size has been taken from the budget.
    ///
    /// # Errors
    /// The keyword that is unknown or has a wrong value, or the limit that is exceeded.
    pub fn new(root: &'a Value, budget: &mut Budget) -> Result<Self, String> {
        let mut check = Check { root, patterns: HashMap::new(), schemas: Vec::new(), alternatives: HashMap::new() };
        check.check(root, 0, budget)?;
        for schema in std::mem::take(&mut check.schemas) {
            check.count_alternatives(schema, 0)?;
        }
        Ok(Self { root, patterns: check.patterns })
    }

    /// Checks a value.
    ///
    /// # Errors
    /// The first fault, with its place.
    pub fn validate(&self, value: &Value) -> Result<(), String> {
        let validation = Validation { schema: self, steps: Cell::new(MAX_STEPS) };
        let outcome = validation.validate(self.root, value, "the answer", 0);
        // Nothing matches without steps, and a failed match satisfies `not`.
        if validation.steps.get() == 0 {
            return Err("it takes too many steps to check".into());
        }
        outcome
    }
}

/// A schema that is being compiled.
struct Check<'a> {
    root: &'a Value,
    patterns: HashMap<&'a str, Regex>,
    /// Every schema, inner ones included.
    schemas: Vec<&'a Value>,
    /// By a schema's address: the schemas that a value of it is held to, 0 while they are counted.
    alternatives: HashMap<*const Value, usize>,
}

impl<'a> Check<'a> {
    fn check(&mut self, schema: &'a Value, depth: usize, budget: &mut Budget) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deeply".into());
        }
        self.schemas.push(schema);
        let keywords = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(keywords) => keywords,
            _ => return Err("a schema is an object".into()),
        };
        for (keyword, value) in keywords {
            let wrong = || Err(format!("`{keyword}` has a wrong value"));
            match keyword.as_str() {
                "$defs" | "definitions" | "properties" => {
                    let Some(schemas) = value.as_object() else { return wrong() };
                    schemas.values().try_for_each(|schema| self.check(schema, depth + 1, budget))?;
                }
                "additionalProperties" | "items" | "not" => self.check(value, depth + 1, budget)?,
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value.as_array() {
                    Some(schemas) if !schemas.is_empty() => {
                        schemas.iter().try_for_each(|schema| self.check(schema, depth + 1, budget))?;
                    }
                    _ => return wrong(),
                },
                "$ref" => {
                    let Some(target) = value.as_str().and_then(|target| resolve(self.root, target)) else {
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
                "required" if !value.as_array().is_some_and(|names| names.iter().all(Value::is_string)) => {
                    return wrong();
                }
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties"
                    if value.as_u64().is_none() =>
                {
                    return wrong();
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if !value.is_number() => {
                    return wrong();
                }
                "pattern" => match value.as_str() {
                    Some(pattern) => self.compile(pattern, budget)?,
                    None => return wrong(),
                },
                "multipleOf" if value.as_f64().is_none_or(|number| number <= 0.0) => return wrong(),
                "uniqueItems" if !value.is_boolean() => return wrong(),
                "enum" | "const" | "required" | "minItems" | "maxItems" | "minLength" | "maxLength"
                | "minProperties" | "maxProperties" | "minimum" | "maximum" | "exclusiveMinimum"
                | "exclusiveMaximum" | "multipleOf" | "uniqueItems" => {}
                annotation if ANNOTATIONS.contains(&annotation) => {}
                _ => return Err(format!("`{keyword}` is not enforced here")),
            }
        }
        Ok(())
    }

    fn compile(&mut self, pattern: &'a str, budget: &mut Budget) -> Result<(), String> {
        if self.patterns.contains_key(pattern) {
            return Ok(());
        }
        let config = Config::new().nfa_size_limit(Some(budget.pattern_bytes)).onepass(false).dfa(false);
        let too_large = || format!("its patterns are too large at {pattern:?}");
        let compiled = Regex::builder().configure(config).build(pattern).map_err(|error| match error.size_limit() {
            Some(_) => too_large(),
            None => format!("`pattern` {pattern:?} is no regular expression that is known here"),
        })?;
        let left = budget.pattern_bytes.checked_sub(compiled.memory_usage());
        budget.pattern_bytes = left.ok_or_else(too_large)?;
        self.patterns.insert(pattern, compiled);
        Ok(())
    }

    /// The schemas that a value of a schema is held to, itself included.
    fn count_alternatives(&mut self, schema: &'a Value, depth: usize) -> Result<usize, String> {
        if depth > MAX_DEPTH {
            return Err("its references are nested too deeply".into());
        }
        let address = std::ptr::from_ref(schema);
        match self.alternatives.get(&address) {
            Some(0) => return Err("`$ref` leads back to its own schema with the same value".into()),
            Some(count) => return Ok(*count),
            None => self.alternatives.insert(address, 0),
        };
        let mut count = 1;
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            let inner: Vec<&Value> = match keyword.as_str() {
                "$ref" => value.as_str().and_then(|target| resolve(self.root, target)).into_iter().collect(),
                "allOf" | "anyOf" | "oneOf" => value.as_array().into_iter().flatten().collect(),
                "not" => vec![value],
                _ => continue,
            };
            for inner in inner {
                count += self.count_alternatives(inner, depth + 1)?;
                if count > MAX_ALTERNATIVES {
                    return Err(format!("one value is held to more than {MAX_ALTERNATIVES} schemas"));
                }
            }
        }
        self.alternatives.insert(address, count);
        Ok(count)
    }
}

/// The part of a schema that a reference such as `#/$defs/NAME` names.
fn resolve<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    root.pointer(target.strip_prefix('#')?)
}

/// A value that is being checked.
struct Validation<'a> {
    schema: &'a Schema<'a>,
    /// Steps that are left.
    steps: Cell<usize>,
}

impl Validation<'_> {
    /// Counts steps. False if there are none left.
    fn step(&self, steps: usize) -> bool {
        self.steps.set(self.steps.get().saturating_sub(steps));
        self.steps.get() > 0
    }

    fn validate(&self, schema: &Value, value: &Value, place: &str, depth: usize) -> Result<(), String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(keywords) => keywords,
            _ => return Err(format!("{place} is not allowed")),
        };
        if depth > MAX_DEPTH {
            return Err(format!("{place} is nested too deeply"));
        }
        let fails = |what: &str| Err(format!("{place} {what}"));
        let holds = |schema: &Value| self.validate(schema, value, place, depth + 1);
        let matches = |schema: &Value| holds(schema).is_ok();
        for (keyword, wanted) in keywords {
            let number = wanted.as_f64().unwrap_or_default();
            let list = || wanted.as_array().map(Vec::as_slice).unwrap_or_default();
            if !self.step(1 + list().len()) {
                return fails("takes too long");
            }
            match keyword.as_str() {
                "$ref" => {
                    let target = resolve(self.schema.root, wanted.as_str().unwrap_or_default());
                    holds(target.unwrap_or(&Value::Bool(false)))?;
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
                "allOf" => list().iter().try_for_each(holds)?,
                "anyOf" if !list().iter().any(matches) => return fails("fits none of the alternatives"),
                "oneOf" if list().iter().filter(|schema| matches(schema)).count() != 1 => {
                    return fails("does not fit exactly one of the alternatives");
                }
                "not" if matches(wanted) => return fails("fits what it must not"),
                "minimum" if value.as_f64().is_some_and(|value| value < number) => return fails("is too small"),
                "maximum" if value.as_f64().is_some_and(|value| value > number) => return fails("is too large"),
                "exclusiveMinimum" if value.as_f64().is_some_and(|value| value <= number) => {
                    return fails("is too small");
                }
                "exclusiveMaximum" if value.as_f64().is_some_and(|value| value >= number) => {
                    return fails("is too large");
                }
                "multipleOf" if value.as_f64().is_some_and(|value| !is_multiple(value, number)) => {
                    return fails("is no multiple");
                }
                "minLength" if value.as_str().is_some_and(|text| (text.chars().count() as f64) < number) => {
                    return fails("is too short");
                }
                "pattern" if value.as_str().is_some_and(|text| !self.matches_pattern(wanted, text)) => {
                    return fails("does not match the pattern");
                }
                "maxLength" if value.as_str().is_some_and(|text| text.chars().count() as f64 > number) => {
                    return fails("is too long");
                }
                _ => {}
            }
        }
        match value {
            Value::Object(fields) => self.validate_object(keywords, fields, place, depth),
            Value::Array(items) => self.validate_array(keywords, items, place, depth),
            _ => Ok(()),
        }
    }

    fn matches_pattern(&self, pattern: &Value, text: &str) -> bool {
        let pattern = pattern.as_str().and_then(|pattern| self.schema.patterns.get(pattern));
        self.step(1 + text.len() / 64) && pattern.is_some_and(|pattern| pattern.is_match(text))
    }

    fn validate_object(
        &self,
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
            let schema =
                properties.and_then(|properties| properties.get(name)).or(keywords.get("additionalProperties"));
            if let Some(schema) = schema {
                self.validate(schema, value, &format!("{place}.{name}"), depth + 1)?;
            }
        }
        Ok(())
    }

    fn validate_array(
        &self,
        keywords: &Map<String, Value>,
        items: &[Value],
        place: &str,
        depth: usize,
    ) -> Result<(), String> {
        check_count(keywords, items.len(), "minItems", "maxItems", place)?;
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            for (at, item) in items.iter().enumerate() {
                if !self.step(at) || items[..at].iter().any(|before| equal(before, item)) {
                    return Err(format!("{place} has an item twice"));
                }
            }
        }
        let first = keywords.get("prefixItems").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (at, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(at).or(keywords.get("items")) {
                self.validate(schema, item, &format!("{place}[{at}]"), depth + 1)?;
            }
        }
        Ok(())
    }
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

    fn compile(schema: &Value) -> Result<Schema<'_>, String> {
        let mut budget = Budget::default();
        budget.take(schema)?;
        Schema::new(schema, &mut budget)
    }

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
            let checked = compile(&schema).unwrap();
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
            assert!(compile(&schema).is_err(), "{schema}");
        }
    }
    /// `levels` of definitions, each of three references to the next.
    fn branching(levels: usize) -> Value {
        let next = |level: usize| json!({ "$ref": format!("#/$defs/level{level}") });
        let definition = |level| {
            let inner = if level + 1 == levels { json!({ "type": "string" }) } else { next(level + 1) };
            (format!("level{level}"), json!({ "anyOf": [inner, inner, inner] }))
        };
        let definitions: Map<String, Value> = (0..levels).map(definition).collect();
        json!({ "$ref": "#/$defs/level0", "$defs": definitions })
    }

    #[test]
    fn a_schema_beyond_its_budget_is_refused() {
        let patterns = |count: usize, pattern: &str| {
            let property = |at: usize| (format!("p{at}"), json!({ "pattern": format!("{pattern}{at}") }));
            json!({ "properties": (0..count).map(property).collect::<Map<_, _>>() })
        };
        let itself = json!({ "$ref": "#/$defs/a" });
        let circle = json!({ "not": itself, "$defs": { "a": { "anyOf": [itself, itself, itself] } } });
        for (schema, message) in [
            (patterns(60_000, r"\w{100}"), "values"),
            (patterns(1_000, r"\w{10}"), "too large"),
            (patterns(1, r"\w{1000}"), "too large"),
            (patterns(1, "((a{1000}){1000}){1000}"), "too large"),
            (json!({ "enum": ["x".repeat(300_000)] }), "bytes"),
            (json!({ "enum": vec![1; 30_000] }), "values"),
            (branching(32), "more than 4096 schemas"),
            (circle, "leads back"),
            (json!({ "$ref": "#" }), "leads back"),
            (json!({ "items": { "allOf": [{ "$ref": "#/items" }] } }), "leads back"),
        ] {
            let error = compile(&schema).err().unwrap_or_default();
            assert!(error.contains(message), "{message}: {error}");
        }
        let mut budget = Budget::default();
        let one = patterns(20, r"\w{5}");
        budget.take(&one).unwrap();
        assert!(Schema::new(&one, &mut budget).is_ok() && Schema::new(&one, &mut budget).is_err(), "of all schemas");
    }

    #[test]
    fn ordinary_schemas_are_within_their_budget() {
        assert!(compile(&branching(6)).unwrap().validate(&json!("a")).is_ok());
        let tree = json!({ "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        assert!(compile(&tree).unwrap().validate(&json!({ "left": { "right": {} } })).is_ok());
        for pattern in [
            r"^[\w.+-]+@[\w-]+\.[\w.]+$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?Z$",
            r"^\p{L}{1,40}$",
            "^[0-9a-f]{64}$",
        ] {
            assert!(compile(&json!({ "pattern": pattern })).is_ok(), "{pattern}");
        }
        let large = (0..2_000).map(|at| (format!("field{at}"), json!({ "type": "string", "description": "A field." })));
        assert!(compile(&json!({ "properties": large.collect::<Map<_, _>>() })).is_ok());
    }

    #[test]
    fn a_validation_ends_whatever_the_answer() {
        let not = json!({ "items": { "not": branching(6) } });
        assert!(compile(&not).is_err(), "references are those of the whole schema");
        let branches = json!({ "items": { "not": { "$ref": "#/$defs/level0" } }, "$defs": branching(6)["$defs"] });
        let answer = json!(vec![1; 50_000]);
        let error = compile(&branches).unwrap().validate(&answer).unwrap_err();
        assert!(error.contains("too many steps"), "{error}");
        let unique = json!({ "uniqueItems": true });
        let error = compile(&unique).unwrap().validate(&Value::from_iter(0..50_000)).unwrap_err();
        assert!(error.contains("too many steps"), "{error}");
    }
}
