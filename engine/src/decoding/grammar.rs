//! Grammars that hold what a language model writes: JSON of a schema, and the arguments of tools.
//!
//! Before each token, a grammar forbids all tokens that would break it. So an answer fits its schema however little its model knows of
//! JSON, unless it is cut short.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, SimpleVob, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::text::tool_calls::{CLOSE, CallForm, OPEN};

/// Space between the parts of JSON. Without an end to it, small models write nothing else.
const SPACE: &str = r"[\x20\x0A\x0D\x09]{1,24}";

/// A function with the JSON Schema of its arguments.
pub struct Function<'a> {
    /// The name.
    pub name: &'a str,
    /// The schema.
    pub parameters: &'a Value,
}

/// Rules of a call after its opening mark, `marked`, and of the parts that it is made of.
fn rules(call_schema: &Value) -> String {
    format!("marked: space? call space? \"{CLOSE}\"\ncall: %json {call_schema}\nspace: /{SPACE}/\n")
}

/// A vocabulary in the form that grammars need.
pub struct GrammarCompiler {
    factory: ParserFactory,
}

/// The grammar of one text, and how far the text has come in it.
#[derive(Clone)]
pub struct Grammar {
    matcher: Matcher,
    env: TokEnv,
}

impl GrammarCompiler {
    /// Takes the bytes of each token, none for control tokens, and the tokens that end a text.
    ///
    /// # Errors
    /// [`Error::Internal`] for a vocabulary without a token that ends a text.
    pub fn new<'a>(pieces: impl Iterator<Item = Option<&'a [u8]>>, ends: &[u32]) -> Result<Self> {
        // A token without bytes is in no text.
        let mut words: Vec<Vec<u8>> = pieces.map(|bytes| bytes.unwrap_or_default().to_vec()).collect();
        let size = u32::try_from(words.len()).unwrap_or(u32::MAX);
        let Some(first) = ends.first().filter(|_| ends.iter().all(|end| *end < size)) else {
            return Err(Error::internal("a vocabulary has no token that ends a text"));
        };
        for end in ends {
            let mark = format!("<|end{end}|>");
            words[*end as usize] = [&[TokTrie::SPECIAL_TOKEN_MARKER], mark.as_bytes()].concat();
        }
        let trie = TokTrie::from(&TokRxInfo::new(size, *first), &words).with_eos_tokens(ends);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let failed = |error| Error::internal(format!("a vocabulary cannot be used with grammars: {error:#}"));
        let mut factory = ParserFactory::new_simple(&env).map_err(failed)?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Self { factory })
    }

    /// The grammar of JSON texts that fit a schema. It cannot hold `not`, `uniqueItems`, formats that it does not know, and of `oneOf`
    /// that no second alternative fits.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a schema that is none, fits nothing, or is too large.
    pub fn json(&self, schema: &Value) -> Result<Grammar> {
        self.compile(TopLevelGrammar::from_json_schema(with_options(schema.clone())))
    }

    /// The grammar of a call of one of the functions: in the marked form all that follows the opening mark, up to the closing one.
    ///
    /// # Errors
    /// As [`GrammarCompiler::json`].
    pub fn call(&self, functions: &[Function], form: CallForm) -> Result<Grammar> {
        let schema = with_options(call_schema(functions, form));
        self.compile(match form {
            CallForm::Marked => TopLevelGrammar::from_lark(format!("start: marked\n{}", rules(&schema))),
            CallForm::Bare => TopLevelGrammar::from_json_schema(schema),
        })
    }

    /// The grammar of texts that are either JSON of a schema or calls of functions.
    ///
    /// # Errors
    /// As [`GrammarCompiler::json`].
    pub fn json_or_calls(&self, schema: &Value, functions: &[Function], form: CallForm) -> Result<Grammar> {
        let (answer, calls) = (with_options(schema.clone()), with_options(call_schema(functions, form)));
        let call = match form {
            CallForm::Marked => format!("(\"{OPEN}\" marked space?)+"),
            CallForm::Bare => "call".into(),
        };
        let rules = rules(&calls);
        self.compile(TopLevelGrammar::from_lark(format!("start: answer | {call}\nanswer: %json {answer}\n{rules}")))
    }

    fn compile(&self, grammar: TopLevelGrammar) -> Result<Grammar> {
        let refused = |error| Error::InvalidOption(format!("the JSON Schema cannot be enforced: {error}"));
        let parser = self.factory.create_parser(grammar).map_err(|error| refused(format!("{error:#}")))?;
        let matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(error) => Err(refused(error)),
            None => Ok(Grammar { matcher, env: self.factory.tok_env().clone() }),
        }
    }
}

impl Grammar {
    /// Forbids the tokens that cannot come next, but for those of `also`.
    ///
    /// # Errors
    /// [`Error::Internal`] if the grammar is at an end, or has become too large for its limits.
    pub fn restrict(&mut self, scores: &mut [f32], also: Option<u32>) -> Result<()> {
        let mut allowed: SimpleVob = self.matcher.compute_mask().map_err(too_large)?;
        if let Some(also) = also {
            allowed.allow_token(also);
        }
        let bits = allowed.len().min(scores.len());
        scores[bits..].fill(f32::NEG_INFINITY);
        allowed.iter_unset_entries(|token| {
            if let Some(score) = scores.get_mut(token) {
                *score = f32::NEG_INFINITY;
            }
        });
        Ok(())
    }

    /// Goes on with a token that [`Grammar::restrict`] has left.
    ///
    /// # Errors
    /// [`Error::Internal`] for another token.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        self.matcher.consume_token(token).map_err(too_large)
    }

    /// Goes on with text that is there already. False if the grammar does not allow it; it is of no use then.
    pub fn accept_text(&mut self, text: &[u8]) -> bool {
        let tokens = self.env.tok_trie().greedy_tokenize(text);
        self.matcher.try_consume_tokens(&tokens).is_ok_and(|taken| taken == tokens.len())
    }

    /// True when nothing can follow.
    pub fn is_complete(&self) -> bool {
        self.matcher.is_stopped()
    }
}

fn too_large(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("the grammar of an answer: {error}"))
}

/// The schema with the options of its compiler: keywords that it cannot hold are left to those who validate the answer.
fn with_options(schema: Value) -> Value {
    let options = json!({ "lenient": true, "coerce_one_of": true, "whitespace_pattern": SPACE });
    match schema {
        Value::Object(mut keywords) => {
            keywords.insert("x-guidance".into(), options);
            Value::Object(keywords)
        }
        other => json!({ "x-guidance": options, "allOf": [other] }),
    }
}

/// The schema of a call of one of the functions.
fn call_schema(functions: &[Function], form: CallForm) -> Value {
    let key = form.arguments_key();
    let (mut definitions, mut calls) = (serde_json::Map::new(), Vec::new());
    for (at, function) in functions.iter().enumerate() {
        let place = format!("function{at}");
        calls.push(json!({
            "type": "object",
            "properties": { "name": { "const": function.name }, key: { "$ref": format!("#/$defs/{place}") } },
            "required": ["name", key],
            "additionalProperties": false,
        }));
        definitions.insert(place.clone(), arguments_schema(function.parameters, &format!("/$defs/{place}")));
    }
    json!({ "$defs": definitions, "anyOf": calls })
}

/// The schema of arguments, which are an object, at its new place.
fn arguments_schema(parameters: &Value, place: &str) -> Value {
    let mut schema = parameters.clone();
    move_references(&mut schema, place);
    match schema {
        Value::Object(mut keywords) => {
            if !["type", "$ref", "allOf", "anyOf", "oneOf"].iter().any(|keyword| keywords.contains_key(*keyword)) {
                keywords.insert("type".into(), json!("object"));
            }
            Value::Object(keywords)
        }
        _ => json!({ "type": "object" }),
    }
}

/// References of a schema lead to the same parts after it has moved.
fn move_references(schema: &mut Value, place: &str) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match value {
                    Value::String(target) if keyword == "$ref" && target.starts_with('#') => {
                        target.insert_str(1, place);
                    }
                    inner => move_references(inner, place),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| move_references(item, place)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Single bytes, some longer tokens, a control token, and two ends.
    fn pieces() -> Vec<Option<Vec<u8>>> {
        let longer = ["{\"", "\":", "\": \"", "}}", "true", "name", "call>", ">\n", "\n\n", " \"", "é"];
        let mut pieces: Vec<Option<Vec<u8>>> = (0..=255).map(|byte| Some(vec![byte])).collect();
        pieces.extend(longer.iter().map(|text| Some(text.as_bytes().to_vec())));
        pieces.extend([None, None, None]);
        pieces
    }

    fn compiler() -> GrammarCompiler {
        let pieces = pieces();
        let ends = [pieces.len() as u32 - 1, pieces.len() as u32 - 2];
        GrammarCompiler::new(pieces.iter().map(Option::as_deref), &ends).unwrap()
    }

    /// Writes a text of random tokens that the grammar allows, in which the shorter ones and those that close something are likelier.
    fn write(mut grammar: Grammar, seed: &mut u64) -> String {
        let pieces = pieces();
        let mut text = Vec::new();
        for written in 0.. {
            assert!(written < 2000, "{}", String::from_utf8_lossy(&text));
            let mut scores = vec![0.0f32; pieces.len()];
            grammar.restrict(&mut scores, None).unwrap();
            let allowed: Vec<usize> = (0..pieces.len()).filter(|token| scores[*token] == 0.0).collect();
            assert!(!allowed.is_empty(), "{}", String::from_utf8_lossy(&text));
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (*seed >> 33) as usize;
            let closing = allowed.iter().find(|token| matches!(**token, 34 | 93 | 125) || **token > 266);
            let token = *closing.filter(|_| drawn.is_multiple_of(3)).unwrap_or(&allowed[drawn / 3 % allowed.len()]);
            let Some(bytes) = &pieces[token] else { break };
            text.extend_from_slice(bytes);
            grammar.accept(token as u32).unwrap();
            if grammar.is_complete() {
                break;
            }
        }
        String::from_utf8(text).unwrap()
    }

    fn city() -> Value {
        json!({
            "type": "object",
            "properties": { "city": { "enum": ["Rome", "Oslo"] }, "days": { "type": "integer", "minimum": 1, "maximum": 9 } },
            "required": ["city"],
            "additionalProperties": false,
        })
    }

    #[test]
    fn random_tokens_make_json_of_the_schema() {
        let (compiler, mut seed) = (compiler(), 1);
        for _ in 0..50 {
            let text = write(compiler.json(&city()).unwrap(), &mut seed);
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert!(["Rome", "Oslo"].contains(&value["city"].as_str().unwrap()), "{text}");
            assert!(value.get("days").is_none_or(|days| (1..=9).contains(&days.as_i64().unwrap())), "{text}");
            let text = write(compiler.json(&json!({ "type": "object" })).unwrap(), &mut seed);
            // Numbers of any size are JSON, though few programs take them.
            match serde_json::from_str::<Value>(&text) {
                Ok(object) => assert!(object.is_object(), "{text}"),
                Err(error) => assert!(error.to_string().contains("out of range"), "{error}: {text}"),
            }
        }
    }

    #[test]
    fn a_call_names_a_function_and_has_its_arguments_and_nothing_follows_it() {
        let (compiler, mut seed) = (compiler(), 2);
        let tree = json!({
            "properties": { "value": { "type": "boolean" }, "next": { "$ref": "#/$defs/tree" } },
            "required": ["value"],
            "additionalProperties": false,
            "$defs": { "tree": { "type": "object", "properties": { "next": { "$ref": "#/$defs/tree" } }, "additionalProperties": false } },
        });
        let (city, tree) = (city(), tree);
        let functions = [Function { name: "weather", parameters: &city }, Function { name: "grow", parameters: &tree }];
        let mut named = [0, 0];
        for _ in 0..50 {
            let mut grammar = compiler.call(&functions, CallForm::Marked).unwrap();
            assert!(grammar.accept_text(b"\n{\"na"));
            let text = format!("\n{{\"na{}", write(grammar, &mut seed));
            let value: Value = serde_json::from_str(text.strip_suffix(CLOSE).expect(&text)).unwrap();
            let arguments = value["arguments"].as_object().unwrap();
            match value["name"].as_str().unwrap() {
                "weather" => named[0] += usize::from(arguments.contains_key("city")),
                "grow" => named[1] += usize::from(arguments["value"].is_boolean()),
                other => panic!("{other}"),
            }
        }
        assert!(named[0] > 0 && named[1] > 0 && named[0] + named[1] == 50, "{named:?}");
        let bare = write(compiler.call(&functions[..1], CallForm::Bare).unwrap(), &mut seed);
        assert_eq!(serde_json::from_str::<Value>(&bare).unwrap()["name"], "weather", "{bare}");
        assert!(!compiler.call(&functions, CallForm::Marked).unwrap().accept_text(b"weather"));
    }

    #[test]
    fn an_answer_is_json_or_calls() {
        let (compiler, mut seed) = (compiler(), 3);
        let (city, number) = (city(), json!({ "type": "integer" }));
        let functions = [Function { name: "weather", parameters: &city }];
        let mut calls = 0;
        for _ in 0..40 {
            let text = write(compiler.json_or_calls(&number, &functions, CallForm::Marked).unwrap(), &mut seed);
            calls += usize::from(text.starts_with(OPEN));
            assert!(
                text.starts_with(OPEN) || serde_json::from_str::<i128>(&text).is_ok() || text.parse::<f64>().is_ok(),
                "{text}"
            );
        }
        assert!((1..40).contains(&calls), "{calls}");
    }

    #[test]
    fn schemas_that_cannot_be_enforced_are_refused() {
        for schema in [
            json!({ "type": "strange" }),
            json!({ "$ref": "#/$defs/missing" }),
            json!({ "$ref": "https://example.com/a.json" }),
            json!({ "type": "string", "pattern": "(" }),
            json!({ "type": "integer", "minimum": 3, "maximum": 2 }),
            json!(false),
            json!(7),
        ] {
            let error = compiler().json(&schema).map(|_| ()).expect_err(&schema.to_string()).to_string();
            assert!(error.contains("cannot be enforced"), "{error}");
        }
        assert!(matches!(
            GrammarCompiler::new(pieces().iter().map(Option::as_deref), &[]),
            Err(Error::Internal { .. })
        ));
    }
}
