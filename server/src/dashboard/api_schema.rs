//! Schemas of the OpenAPI document for people: lists of fields, kinds in words, examples.

use serde_json::{Map, Value, json};

use super::words::EN;

/// Fields of fields of fields are as deep as a list goes.
const MAX_DEPTH: usize = 3;

/// The content type of an offer, and the file that commands read one from.
pub const SDP: &str = "application/sdp";
pub const OFFER: &str = "offer.sdp";

/// The document's schemas and parameters.
pub struct Schemas<'a>(&'a Value);

/// A field of a body, at any depth.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// `words[].text`
    pub name: String,
    pub is_required: bool,
    pub kind: String,
    pub about: String,
}

impl<'a> Schemas<'a> {
    pub fn of(document: &'a Value) -> Self {
        Self(document)
    }

    /// What a reference names, or the value itself.
    pub fn resolve<'b>(&'b self, value: &'b Value) -> &'b Value {
        let target = value["$ref"].as_str().and_then(|target| self.0.pointer(target.strip_prefix('#')?));
        target.unwrap_or(value)
    }

    /// The kind of a value in words: its type, its values, its limits.
    pub fn kind(&self, schema: &Value) -> String {
        let schema = self.resolve(schema);
        let types: Vec<&str> = match &schema["type"] {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
            _ => Vec::new(),
        };
        let mut kind = match types.as_slice() {
            ["array"] => format!("{} {}", EN.kind_array, self.kind(&schema["items"])),
            types => types.join(" | "),
        };
        for part in ["oneOf", "anyOf"] {
            let kinds: Vec<String> =
                schema[part].as_array().into_iter().flatten().map(|choice| self.kind(choice)).collect();
            kind += &kinds.into_iter().filter(|kind| !kind.is_empty()).collect::<Vec<_>>().join(" | ");
        }
        if let Some(value) = plain(&schema["const"]) {
            kind += &format!("\"{value}\"");
        }
        let values: Vec<String> = schema["enum"].as_array().into_iter().flatten().filter_map(plain).collect();
        if !values.is_empty() {
            kind += &format!(": {}", values.join(", "));
        }
        let limit = |name: &str| plain(&schema[name]);
        let unit = if types.contains(&"array") { EN.kind_entries } else { EN.kind_characters };
        match (limit("minimum"), limit("maximum")) {
            (Some(least), Some(most)) => kind += &format!(", {least} – {most}"),
            (Some(least), None) => kind += &format!(", ≥ {least}"),
            (None, Some(most)) => kind += &format!(", ≤ {most}"),
            (None, None) => {}
        }
        if let Some(most) = limit("maxLength").or_else(|| limit("maxItems")) {
            kind += &format!(", ≤ {most} {unit}");
        }
        if let Some(usual) = limit("default") {
            kind += &format!("; {} {usual}", EN.kind_default);
        }
        kind
    }

    /// The fields of an object, those of its parts behind them.
    pub fn fields(&self, schema: &Value) -> Vec<Field> {
        let mut fields = Vec::new();
        self.add_fields(schema, "", 0, &mut fields);
        fields
    }

    fn add_fields(&self, schema: &Value, before: &str, depth: usize, into: &mut Vec<Field>) {
        let schema = self.resolve(schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let resolved = self.resolve(field);
            let about = [field, resolved].into_iter().find_map(|part| part["description"].as_str()).unwrap_or_default();
            into.push(Field {
                name: format!("{before}{name}"),
                is_required: schema["required"].as_array().is_some_and(|names| names.contains(&json!(name))),
                kind: self.kind(resolved),
                about: about.to_owned(),
            });
            if depth + 1 < MAX_DEPTH {
                let items = self.resolve(&resolved["items"]);
                let (part, mark) = if items.is_object() { (items, "[].") } else { (resolved, ".") };
                self.add_fields(part, &format!("{before}{name}{mark}"), depth + 1, into);
            }
        }
    }

    /// The required fields of a form, with values that fit; an audio file has none. An offer of a call is read from a file.
    pub fn form(&self, schema: &Value) -> Vec<(String, Option<String>)> {
        let schema = self.resolve(schema);
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        required
            .map(|name| {
                let field = self.resolve(&schema["properties"][name]);
                let value = match field["contentMediaType"].as_str() {
                    Some(SDP) => Some(format!("<{OFFER}")),
                    Some(_) => None,
                    None => Some(plain(&self.example(field)).unwrap_or_default()),
                };
                (name.to_owned(), value)
            })
            .collect()
    }

    /// A value that fits: the document's example, else the required fields.
    pub fn example(&self, schema: &Value) -> Value {
        let schema = self.resolve(schema);
        // `x-example` is one that works only with a model that few machines have: tools that try all examples leave it alone.
        for given in [&schema["examples"][0], &schema["x-example"], &schema["default"], &schema["enum"][0]] {
            if !given.is_null() {
                return given.clone();
            }
        }
        let kind = match &schema["type"] {
            Value::Array(names) => names.first().and_then(Value::as_str).unwrap_or_default(),
            name => name.as_str().unwrap_or_default(),
        };
        match kind {
            "object" => {
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let fields: Map<String, Value> =
                    required.map(|name| (name.to_owned(), self.example(&schema["properties"][name]))).collect();
                Value::Object(fields)
            }
            "array" => json!([self.example(&schema["items"])]),
            "integer" | "number" => {
                if schema["minimum"].is_null() {
                    json!(1)
                } else {
                    schema["minimum"].clone()
                }
            }
            "boolean" => json!(true),
            _ => json!(""),
        }
    }
}

/// A value that is no list and no object, as it is written.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_becomes_words_fields_and_an_example() {
        let document = json!({ "components": { "schemas": {
            "Word": { "type": "object", "required": ["text"], "description": "A word", "properties": {
                "text": { "type": "string" }, "next": { "$ref": "#/components/schemas/Word" } } },
            "Body": { "type": "object", "required": ["n", "words"], "properties": {
                "n": { "type": "integer", "minimum": 2, "maximum": 9 },
                "object": { "const": "list" },
                "kind": { "type": ["string", "null"], "enum": ["a", "b", null], "default": "a" },
                "words": { "type": "array", "maxItems": 5, "items": { "$ref": "#/components/schemas/Word" } } } },
        } } });
        let schemas = Schemas::of(&document);
        let body = json!({ "$ref": "#/components/schemas/Body" });
        let fields = schemas.fields(&body);
        let find = |name: &str| fields.iter().find(|field| field.name == name).unwrap();
        assert_eq!(find("n").kind, "integer, 2 – 9");
        assert!(find("n").is_required && !find("kind").is_required);
        assert_eq!(find("kind").kind, "string: a, b; default a");
        assert_eq!(find("object").kind, "\"list\"");
        assert_eq!(find("words").kind, "array of object, ≤ 5 entries");
        assert_eq!(find("words[].next").about, "A word");
        // A schema that holds itself ends.
        assert!(fields.iter().all(|field| field.name.split('.').count() <= MAX_DEPTH));
        assert_eq!(schemas.example(&body), json!({ "n": 2, "words": [{ "text": "" }] }));
    }
}
