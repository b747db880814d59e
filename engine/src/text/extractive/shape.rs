//! The JSON object that a prompt describes.

use crate::text::word_list::words;

/// The kind of value that a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    Text,
    Number,
    Flag,
    /// Alternatives, of which the value is one.
    OneOf(Vec<String>),
    List(Box<FieldType>),
    Object(Vec<Field>),
}

/// A field of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: FieldType,
    /// The prompt's words about the value, besides its type.
    pub description: String,
}

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 8;
/// The most fields that are read.
const MAX_FIELDS: usize = 200;

/// The fields that a prompt describes: an object in braces, else names in quotes or after "keys" or "fields". Empty if it describes
/// none.
pub fn parse(prompt: &str) -> Vec<Field> {
    in_braces(prompt).or_else(|| listed(prompt)).unwrap_or_default()
}

/// The prompt without its description of the object.
pub fn without_shape(prompt: &str) -> String {
    match (prompt.find('{'), prompt.rfind('}')) {
        (Some(start), Some(end)) if start < end => format!("{} {}", &prompt[..start], &prompt[end + 1..]),
        _ => prompt.to_owned(),
    }
}

fn in_braces(prompt: &str) -> Option<Vec<Field>> {
    let start = prompt.find('{')?;
    let mut reader = Reader { rest: &prompt[start..], fields: 0 };
    let fields = reader.object(0)?;
    (!fields.is_empty()).then_some(fields)
}

/// Reads an object that is written roughly as JSON: names with or without quotes, types or descriptions as values.
struct Reader<'a> {
    rest: &'a str,
    fields: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = &self.rest[wanted.len_utf8()..];
        }
        found
    }

    fn object(&mut self, depth: usize) -> Option<Vec<Field>> {
        if depth > MAX_DEPTH || !self.take('{') {
            return None;
        }
        let mut fields = Vec::new();
        loop {
            while self.take(',') || self.take(';') {}
            match self.peek()? {
                '}' => {
                    self.take('}');
                    return Some(fields);
                }
                '.' | '…' => {
                    // "{...}" and "...": more of the same.
                    self.rest = self.rest.trim_start_matches(['.', '…']);
                }
                _ => {
                    self.fields += 1;
                    if self.fields > MAX_FIELDS {
                        return None;
                    }
                    let name = self.text(&[':', ',', '}', '\n'])?;
                    let (kind, description) =
                        if self.take(':') { self.value(depth)? } else { (FieldType::Text, String::new()) };
                    let name = name.trim_end_matches('?').trim().to_owned();
                    if name.is_empty() || name.chars().count() > 100 {
                        return None;
                    }
                    fields.push(Field { name, kind, description });
                }
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<(FieldType, String)> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.peek()? {
            '{' => Some((FieldType::Object(self.object(depth + 1)?), String::new())),
            '[' => {
                self.take('[');
                let (item, description) =
                    if self.peek()? == ']' { (FieldType::Text, String::new()) } else { self.value(depth + 1)? };
                // Further examples of an item, and dots.
                while self.peek()? != ']' {
                    if !self.take(',') && !self.take('.') && !self.take('…') {
                        self.value(depth + 1)?;
                    }
                }
                self.take(']');
                Some((FieldType::List(Box::new(item)), description))
            }
            '<' => {
                self.take('<');
                let text = self.text(&['>'])?;
                self.take('>');
                Some(described(&text))
            }
            _ => {
                let mut text = self.text(&[',', '}', ']', '\n'])?;
                // `"a" | "b"`
                while self.take('|') {
                    text = format!("{text}|{}", self.text(&[',', '}', ']', '\n', '|'])?);
                }
                Some(described(&text))
            }
        }
    }

    /// A text in quotes, or up to one of these marks.
    fn text(&mut self, ends: &[char]) -> Option<String> {
        let quote = self.peek()?;
        if matches!(quote, '"' | '\'' | '`' | '“') {
            let closing = if quote == '“' { '”' } else { quote };
            let inner = &self.rest[quote.len_utf8()..];
            let end = inner.find(closing)?;
            self.rest = &inner[end + closing.len_utf8()..];
            let mut text = inner[..end].to_owned();
            // `"name" (string)` and `"text": string, the whole`
            let more = self.rest.find([',', ':', '}', ']', '\n', '|', '>']).map_or("", |end| &self.rest[..end]);
            if !more.trim().is_empty() && !ends.contains(&':') {
                self.rest = &self.rest[more.len()..];
                text = format!("{text} {}", more.trim());
            } else if !more.trim().is_empty() {
                self.rest = &self.rest[more.len()..];
            }
            return Some(text);
        }
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(text.trim().to_owned())
    }
}

/// The type that a description names, and the description itself.
fn described(text: &str) -> (FieldType, String) {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_one_of = |types: &[&str]| words.iter().any(|word| types.contains(word));
    let rest: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric() && character != '\'')
        .filter(|word| {
            !words!(
                "string number integer float int boolean bool array list strings numbers null text or of str optional"
            )
            .contains(word)
                && !word.is_empty()
        })
        .collect();
    let description = rest.join(" ");
    let alternatives: Vec<String> = text
        .split(['|', '/'])
        .map(|part| part.trim().trim_matches(['"', '\'', '`']).trim().to_owned())
        .filter(|part| !part.is_empty() && part != "null" && part != "string" && part != "number")
        .collect();
    let is_list = text.trim_end().ends_with("[]") || is_one_of(&["array", "list"]);
    let simple = if is_one_of(&["number", "integer", "float", "int", "numbers", "integers"])
        || text.trim().parse::<f64>().is_ok()
    {
        FieldType::Number
    } else if is_one_of(&["boolean", "bool", "true", "false"]) {
        FieldType::Flag
    } else if alternatives.len() > 1 && alternatives.iter().all(|part| part.split_whitespace().count() <= 3) {
        FieldType::OneOf(alternatives)
    } else {
        FieldType::Text
    };
    (if is_list { FieldType::List(Box::new(simple)) } else { simple }, description)
}

/// Names of fields in the text: in quotes after "keys", "fields", "properties", "object" or "JSON", or in a list after the first three.
fn listed(prompt: &str) -> Option<Vec<Field>> {
    let after = |marks: &[&str]| {
        let lower = prompt.to_lowercase();
        let mark = marks.iter().filter_map(|mark| lower.find(mark).map(|at| at + mark.len())).min()?;
        // Lower case may change lengths in bytes.
        Some(prompt.get(mark..)?.trim_start_matches([':', ' ', '\n', 's']))
    };
    let tail = after(&["keys", "key", "fields", "field", "properties", "attributes"]);
    tail.and_then(quoted).or_else(|| after(&["object", "json"]).and_then(quoted)).or_else(|| tail.and_then(unquoted))
}

/// The longest name of a field, in characters.
const MAX_NAME: usize = 60;

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.chars().count() <= MAX_NAME
        && name.chars().all(|character| character.is_alphanumeric() || matches!(character, '_' | '-'))
}

/// Names in quotes, each with its type in brackets behind it.
fn quoted(tail: &str) -> Option<Vec<Field>> {
    let quoted: Vec<&str> = ['"', '`', '\'']
        .iter()
        .map(|quote| tail.split(*quote).skip(1).step_by(2).collect::<Vec<_>>())
        .find(|names| !names.is_empty())
        .unwrap_or_default();
    let fields = quoted.into_iter().filter(|name| is_name(name)).map(|name| {
        let behind = tail.split(name).nth(1).unwrap_or_default().trim_start_matches(['"', '`', '\'']).trim_start();
        let note = behind.strip_prefix('(').and_then(|note| note.split(')').next()).unwrap_or_default();
        let (kind, description) = described(note);
        Field { name: name.to_owned(), kind, description }
    });
    let fields: Vec<Field> = fields.take(MAX_FIELDS).collect();
    (!fields.is_empty()).then_some(fields)
}

/// Names in a list without quotes.
fn unquoted(tail: &str) -> Option<Vec<Field>> {
    let end = tail.find(['.', '?', '!', '\n']).unwrap_or(tail.len());
    let list = tail[..end].replace(" and ", ",");
    let mut fields = Vec::new();
    for part in list.split(',') {
        let (name, note) = part.split_once('(').unwrap_or((part, ""));
        let name = name.trim();
        if !is_name(name) {
            continue;
        }
        let (kind, description) = described(note.trim_end_matches(')'));
        fields.push(Field { name: name.to_owned(), kind, description });
    }
    (!fields.is_empty()).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(name: &str) -> Field {
        Field { name: name.into(), kind: FieldType::Text, description: String::new() }
    }

    #[test]
    fn objects_are_read_in_the_ways_that_people_write_them() {
        let fields =
            parse(r#"Return {"speaker": string, "topics": ["string", ...], "count": number, "mood": "good" | "bad"}."#);
        assert_eq!(fields[0], text("speaker"));
        assert_eq!(fields[1].kind, FieldType::List(Box::new(FieldType::Text)));
        assert_eq!(fields[2].kind, FieldType::Number);
        assert_eq!(fields[3].kind, FieldType::OneOf(vec!["good".into(), "bad".into()]));
        let fields =
            parse("As JSON: { name: <the caller's name>, paid: boolean, tasks: [{ owner: string, due: string }] }");
        assert_eq!((fields[0].name.as_str(), fields[0].description.as_str()), ("name", "the caller's name"));
        assert_eq!(fields[1].kind, FieldType::Flag);
        let FieldType::List(item) = &fields[2].kind else { panic!("{fields:?}") };
        assert_eq!(**item, FieldType::Object(vec![text("owner"), text("due")]));
    }

    #[test]
    fn names_without_braces_are_read() {
        assert_eq!(
            parse("Give JSON with the keys title, due_date and owner."),
            [text("title"), text("due_date"), text("owner")]
        );
        let fields = parse("An object with fields `who` (string) and `how_many` (number), please");
        assert_eq!(fields[0], text("who"));
        assert_eq!((fields[1].name.as_str(), &fields[1].kind), ("how_many", &FieldType::Number));
        let fields = parse(r#"Return a JSON object with "city" (string), "count" (integer) and "name" (string)."#);
        assert_eq!((fields[0].name.as_str(), &fields[1].kind, fields.len()), ("city", &FieldType::Number, 3));
        assert_eq!(parse(r#"Give me an object with a "name" key."#), [text("name")]);
        assert!(parse("Who called?").is_empty());
        assert!(parse("What did she say about the object with \"the long tail\"?").is_empty());
    }

    #[test]
    fn what_is_no_object_gives_no_fields() {
        let deep = "{a:".repeat(500);
        let many = format!("{{{}}}", "a,".repeat(500));
        for prompt in ["{", "{}", "{{}", "{\"a", "{a:[", "} {", &deep, &many, "{a:\"", "{:}", "[{]"] {
            assert!(parse(prompt).len() <= 1, "{prompt:.20}");
        }
    }
}
