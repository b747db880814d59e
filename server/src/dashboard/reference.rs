//! The API reference: the OpenAPI document as pages. Each operation has a form that tries it with the visitor's own sign-in.

use std::sync::Arc;

use askama::Template;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::DashboardState;
use super::api_schema::{Field, OFFER, SDP, Schemas};
use super::frame::{Frame, Section, page};
use super::words::EN;
use crate::context::RequestContext;
use crate::http::response::{ApiError, Response, Result};

/// The reference, made from the document once.
pub struct Reference {
    groups: Vec<Group>,
    /// The address of the document.
    document: String,
}

/// Operations of one tag.
struct Group {
    name: &'static str,
    operations: Vec<Operation>,
}

struct Operation {
    /// The operation's id in the document, and its address here.
    id: String,
    method: String,
    path: String,
    summary: String,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    answers: Vec<Answer>,
    /// It can be tried with a form.
    is_tried: bool,
    code: String,
}

struct Parameter {
    name: String,
    /// `path`, `query` or `header`.
    place: String,
    is_required: bool,
    kind: String,
    about: String,
    /// A value that works wherever the document has one; others are the reader's own.
    example: Option<String>,
}

struct Body {
    content_type: String,
    is_required: bool,
    fields: Vec<Field>,
    /// A body that works, as JSON; empty for a form.
    example: String,
    /// The arguments of curl for each kind of body: a form, then JSON.
    arguments: Vec<String>,
}

struct Answer {
    status: String,
    is_success: bool,
    about: String,
    content_types: String,
    fields: Vec<Field>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The name of a tag.
fn name_of(tag: &str) -> &'static str {
    match tag {
        "transcripts" => EN.tag_transcripts,
        "uploads" => EN.tag_uploads,
        "speakers" => EN.tag_speakers,
        "webhooks" => EN.tag_webhooks,
        "language" => EN.tag_language,
        "models" => EN.tag_models,
        "billing" => EN.tag_billing,
        "realtime" => EN.tag_realtime,
        "voice-agent" => EN.tag_agent,
        "telephony" => EN.tag_telephony,
        "openai" => EN.tag_openai,
        "deepgram" => EN.tag_deepgram,
        "assistants" => EN.tag_assistants,
        _ => EN.tag_service,
    }
}

impl Reference {
    /// The pages of a document.
    pub fn new(document: &Value) -> Self {
        let schemas = Schemas::of(document);
        let server = text(&document["servers"][0]["url"]);
        let mut groups: Vec<Group> = Vec::new();
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            item.as_object().into_iter().flatten().map(move |(method, operation)| (path, method, operation))
        });
        for (path, method, described) in operations {
            let operation = Operation::new(&schemas, &server, path, method, described);
            let name = name_of(described["tags"][0].as_str().unwrap_or_default());
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.operations.push(operation),
                None => groups.push(Group { name, operations: vec![operation] }),
            }
        }
        // The document has its paths in the order of the alphabet.
        let rank = |group: &Group| ORDER.iter().position(|tag| name_of(tag) == group.name).unwrap_or(ORDER.len());
        groups.sort_by_key(rank);
        Self { groups, document: format!("{server}/openapi.json") }
    }

    fn operation(&self, id: &str) -> Option<&Operation> {
        self.groups.iter().flat_map(|group| &group.operations).find(|operation| operation.id == id)
    }
}

/// Tags in the order in which somebody needs them.
const ORDER: [&str; 12] = [
    "transcripts",
    "uploads",
    "speakers",
    "webhooks",
    "language",
    "realtime",
    "voice-agent",
    "telephony",
    "models",
    "billing",
    "openai",
    "deepgram",
];

impl Operation {
    fn new(schemas: &Schemas<'_>, server: &str, path: &str, method: &str, described: &Value) -> Self {
        let parameters = described["parameters"].as_array().into_iter().flatten().map(|parameter| {
            let parameter = schemas.resolve(parameter);
            Parameter {
                name: text(&parameter["name"]),
                place: text(&parameter["in"]),
                is_required: parameter["required"] == true,
                kind: schemas.kind(&parameter["schema"]),
                example: parameter["schema"]["examples"][0].as_str().map(str::to_owned),
                about: text(&parameter["description"]),
            }
        });
        let parameters: Vec<Parameter> = parameters.collect();
        let kinds = described["requestBody"]["content"].as_object();
        let form = kinds.and_then(|kinds| kinds.get("multipart/form-data"));
        let json = kinds.and_then(|kinds| kinds.get("application/json"));
        let bytes = kinds.and_then(|kinds| kinds.get("application/octet-stream"));
        let offer = kinds.and_then(|kinds| kinds.get(SDP));
        let body = kinds.and_then(|kinds| kinds.iter().next());
        let body = body.map(|(content_type, media)| Body {
            content_type: content_type.clone(),
            is_required: described["requestBody"]["required"] == true,
            fields: schemas.fields(&media["schema"]),
            example: match content_type.as_str() {
                "application/json" => format!("{:#}", schemas.example(&media["schema"])),
                _ => String::new(),
            },
            arguments: form
                .map(|form| form_arguments(&schemas.form(&form["schema"])))
                .into_iter()
                .chain(json.map(|json| json_arguments(&schemas.example(&json["schema"]))))
                .chain(bytes.map(|_| " \\\n  --data-binary @speech.wav".to_owned()))
                .chain(offer.map(|_| format!(" \\\n  -H \"Content-Type: {SDP}\" \\\n  --data-binary @{OFFER}")))
                .collect(),
        });
        let answers = described["responses"].as_object().into_iter().flatten().map(|(status, answer)| {
            let is_success = !status.starts_with(['4', '5']);
            let content: Vec<_> = answer["content"].as_object().into_iter().flatten().collect();
            Answer {
                status: status.clone(),
                is_success,
                about: text(&answer["description"]),
                content_types: content.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
                // All errors have one shape, which the first page explains.
                fields: content
                    .first()
                    .filter(|_| is_success)
                    .map(|(_, media)| schemas.fields(&media["schema"]))
                    .unwrap_or_default(),
            }
        });
        let answers: Vec<Answer> = answers.collect();
        let takes_json = body.as_ref().is_none_or(|body| !body.example.is_empty());
        let upgrades = answers.iter().any(|answer| answer.status == "101");
        let needs_key = described["security"].as_array().is_some_and(|ways| !ways.is_empty());
        let method = method.to_uppercase();
        Self {
            id: text(&described["operationId"]),
            summary: text(&described["summary"]),
            is_tried: takes_json && needs_key && !upgrades,
            code: if upgrades {
                String::new()
            } else {
                curl(server, &method, path, needs_key, &parameters, body.as_ref())
            },
            parameters,
            method,
            path: path.to_owned(),
            body,
            answers,
        }
    }
}

/// The commands that send a request, one for each kind of body. What they need from the reader is in variables, and the file `speech.wav`.
fn curl(
    server: &str,
    method: &str,
    path: &str,
    needs_key: bool,
    parameters: &[Parameter],
    body: Option<&Body>,
) -> String {
    let path: Vec<String> = path
        .split('/')
        .map(|part| match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) => value_of(parameters.iter().find(|parameter| parameter.name == name), name),
            None => part.to_owned(),
        })
        .collect();
    let query: Vec<String> = parameters
        .iter()
        .filter(|parameter| parameter.place == "query" && parameter.is_required)
        .map(|parameter| format!("{}={}", parameter.name, value_of(Some(parameter), &parameter.name)))
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let mut command = format!("curl -sS -X {method} \"{server}{}{query}\"", path.join("/"));
    if needs_key {
        command += " \\\n  -H \"Authorization: Bearer $AURICLE_KEY\"";
    }
    match body {
        Some(body) => {
            let commands: Vec<String> =
                body.arguments.iter().map(|arguments| format!("{command}{arguments}")).collect();
            commands.join("\n\n")
        }
        None => command,
    }
}

/// The value of a parameter within double quotes of a shell.
fn value_of(parameter: Option<&Parameter>, name: &str) -> String {
    match parameter.and_then(|parameter| parameter.example.as_ref()) {
        Some(example) => utf8_percent_encode(example, NON_ALPHANUMERIC).to_string().replace("%2D", "-"),
        None => format!("${}", name.to_uppercase()),
    }
}

fn form_arguments(fields: &[(String, Option<String>)]) -> String {
    let argument = |(name, value): &(String, Option<String>)| match value {
        Some(value) if value.contains(|one: char| !one.is_ascii_alphanumeric() && one != '-') => {
            format!(" \\\n  -F '{name}={}'", value.replace('\'', "'\\''"))
        }
        Some(value) => format!(" \\\n  -F {name}={value}"),
        None => format!(" \\\n  -F {name}=@speech.wav"),
    };
    fields.iter().map(argument).collect()
}

/// Ids in an example are those of the reader.
fn json_arguments(example: &Value) -> String {
    const IDS: [(&str, &str); 2] = [("transcript_id", "$TRANSCRIPT_ID"), ("upload_id", "$UPLOAD_ID")];
    let mut example = example.clone();
    for (name, variable) in IDS {
        if let Some(id) = example.get_mut(name) {
            *id = variable.into();
        }
    }
    let mut quoted = format!("{example:#}").replace('\'', "'\\''");
    for (_, variable) in IDS {
        // A shell reads no variable within single quotes.
        quoted = quoted.replace(variable, &format!("'\"{variable}\"'"));
    }
    format!(" \\\n  -H \"Content-Type: application/json\" \\\n  -d '{quoted}'")
}

#[derive(Template)]
#[template(path = "reference.html")]
struct ReferencePage<'a> {
    frame: Frame,
    reference: &'a Reference,
}

#[derive(Template)]
#[template(path = "operation.html")]
struct OperationPage<'a> {
    frame: Frame,
    operation: &'a Operation,
}

/// `GET /reference`
pub async fn show(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let frame = Frame::new(&state, &request, Section::Reference, EN.reference).await?;
    page(&ReferencePage { frame, reference: &state.reference })
}

/// `GET /reference/{operation_id}`
pub async fn operation(state: Arc<DashboardState>, request: RequestContext) -> Result<Response> {
    let operation = state.reference.operation(&request.param("operation_id"));
    let operation = operation.ok_or_else(|| ApiError::not_found(EN.operation_gone))?;
    let frame = Frame::new(&state, &request, Section::Reference, &operation.summary).await?;
    page(&OperationPage { frame, operation })
}
