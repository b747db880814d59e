//! A loaded language model: network, tokenizer and chat template.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use auricle_kernels::attention::paged::cpu::PagePrecision;
use auricle_kernels::product::gemv::{Precision, widens_16_bits};
use auricle_kernels::sampling::likeliest::likeliest_of;
use burn::tensor::Device;
use chrono::NaiveDateTime;
use serde_json::Value as Json;

use super::config::{Config, Family};
use super::gpu::GpuNetwork;
use super::network::{Network, Piece};
use super::pages::PageArena;
use super::source::TensorSource;
use super::template::{ChatTemplate, TemplateCall, TemplateFunction, TemplateMessage};
use super::tokenizer::ChatTokenizer;
use crate::decoding::grammar::GrammarCompiler;
use crate::device::is_cpu;
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::weights::gguf::{Gguf, Value};
use crate::weights::{Weights, is_later_shard};

/// A language model.
pub struct ChatModel {
    path: PathBuf,
    config: Arc<Config>,
    network: DeviceNetwork,
    tokenizer: ChatTokenizer,
    template: Option<ChatTemplate>,
    /// Tokens that end an answer.
    end: Vec<u32>,
    parameters: usize,
    form: String,
    /// Made for the first text that needs it.
    grammars: OnceLock<GrammarCompiler>,
}

/// The network on its device.
enum DeviceNetwork {
    Cpu(Box<Network>),
    Gpu(Box<GpuNetwork>),
}

impl DeviceNetwork {
    fn load(
        config: Arc<Config>,
        source: TensorSource,
        precision: Precision,
        device: &Device,
        most_bytes: Option<u64>,
    ) -> Result<Self> {
        let most = most_bytes.unwrap_or(u64::MAX);
        match is_cpu(device) || !GpuNetwork::fits(&config, precision, device, most) {
            true => Ok(Self::Cpu(Box::new(Network::load(config, source)?))),
            false => Ok(Self::Gpu(Box::new(GpuNetwork::load(config, source, precision, device)?))),
        }
    }
}

type LoadNetwork<'a> = &'a dyn Fn(Arc<Config>, TensorSource) -> Result<DeviceNetwork>;

impl Loaded for ChatModel {}

impl ChatModel {
    /// Loads a published folder, a GGUF file, or a folder with one GGUF file, for the CPU.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(path: &Path) -> Result<Self> {
        Self::load_with(path, Precision::F32)
    }

    /// As [`ChatModel::load`]. With [`Precision::Int8`] products with the quantised weights of a GGUF file round their inputs to 8 bits, on
    /// a processor that is faster with them; all else stays as it is.
    ///
    /// # Errors
    /// As [`ChatModel::load`].
    pub fn load_with(path: &Path, precision: Precision) -> Result<Self> {
        Self::load_on(path, precision, &Device::flex(), None)
    }

    /// As [`ChatModel::load_with`] for a device, whose tensors have at most so many bytes. On a GPU the weights are unpacked
    /// ([`GpuNetwork::load`]); a model that is too large for its tensors runs on the CPU.
    ///
    /// # Errors
    /// As [`ChatModel::load`].
    pub fn load_on(path: &Path, precision: Precision, device: &Device, most_bytes: Option<u64>) -> Result<Self> {
        let network = |config, source| DeviceNetwork::load(config, source, precision, device, most_bytes);
        let gguf = if path.is_dir() { only_gguf(path)? } else { Some(path.to_path_buf()) };
        match gguf {
            Some(file) => Self::load_gguf(&file, precision, &network),
            None => Self::load_folder(path, &network),
        }
    }

    /// True if there is a language model: a GGUF file, a folder with one, or a published folder of one of the families.
    pub fn is_at(path: &Path) -> bool {
        if path.is_dir() {
            Family::of_folder(path).is_some() || only_gguf(path).is_ok_and(|file| file.is_some())
        } else {
            path.extension().is_some_and(|end| end == "gguf")
        }
    }

    /// The decoder of a larger model in the folder `dir`, as [`ChatModel::load_on`]: its configuration, tokens, and tensors under the names
    /// of a language model.
    ///
    /// # Errors
    /// As [`ChatModel::load`].
    pub fn of_part(
        dir: &Path,
        (config, tokenizer, weights): (Config, ChatTokenizer, Weights),
        precision: Precision,
        device: &Device,
    ) -> Result<Self> {
        let network = |config, source| DeviceNetwork::load(config, source, precision, device, None);
        let marks = [("bos_token", None), ("eos_token", None)];
        let source = TensorSource::Folder(weights, precision);
        Self::new(dir, Arc::new(config), tokenizer, None, marks, source, &network)
    }

    fn load_folder(dir: &Path, network: LoadNetwork) -> Result<Self> {
        let config = Arc::new(Config::read(dir)?);
        let tokenizer = ChatTokenizer::read(dir, config.vocabulary)?;
        let settings = read_json(&dir.join("tokenizer_config.json"))?;
        let path = dir.join("chat_template.jinja");
        let source = match std::fs::read_to_string(&path) {
            Ok(source) => Some(source),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                settings["chat_template"].as_str().map(str::to_owned)
            }
            Err(error) => return Err(Error::Checkpoint { path, reason: format!("cannot read: {error}") }),
        };
        let text = |key: &str| settings[key].as_str().or_else(|| settings[key]["content"].as_str()).map(str::to_owned);
        let marks = [("bos_token", text("bos_token")), ("eos_token", text("eos_token"))];
        Self::new(dir, config, tokenizer, source, marks, TensorSource::folder(dir)?, network)
    }

    fn load_gguf(path: &Path, precision: Precision, network: LoadNetwork) -> Result<Self> {
        let file = Gguf::open(path)?;
        let config = Arc::new(Config::of_gguf(&file)?);
        let tokenizer = ChatTokenizer::of_gguf(&file)?;
        let source = match file.value("tokenizer.chat_template") {
            Some(Value::Text(source)) => Some(source.clone()),
            _ => None,
        };
        let mark = |key: &str| match file.value(&format!("tokenizer.ggml.{key}_token_id")) {
            Some(Value::Integer(id)) => {
                u32::try_from(*id).ok().and_then(|id| tokenizer.control_text(id)).map(str::to_owned)
            }
            _ => None,
        };
        let marks = [("bos_token", mark("bos")), ("eos_token", mark("eos"))];
        Self::new(path, config, tokenizer, source, marks, TensorSource::file(file, precision), network)
    }

    fn new(
        path: &Path,
        config: Arc<Config>,
        tokenizer: ChatTokenizer,
        template: Option<String>,
        marks: [(&'static str, Option<String>); 2],
        source: TensorSource,
        network: LoadNetwork,
    ) -> Result<Self> {
        let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
        let mut end = config.end.clone();
        // A base model's file may name the end of a document only; its template ends each message with one of these.
        end.extend(marks[1].1.as_deref().and_then(|text| tokenizer.mark(text)));
        end.extend(["<|im_end|>", "<|eot_id|>"].iter().filter_map(|text| tokenizer.mark(text)));
        end.sort_unstable();
        end.dedup();
        if end.is_empty() {
            return Err(bad("names no token that ends a text".into()));
        }
        let marks: BTreeMap<_, _> = marks.into_iter().filter_map(|(name, text)| Some((name, text?))).collect();
        let template = template.map(|source| ChatTemplate::new(source, marks)).transpose().map_err(bad)?;
        let (parameters, form) = (source.parameters(), source.form());
        let network = network(config.clone(), source)?;
        Ok(Self {
            path: path.to_path_buf(),
            config,
            network,
            tokenizer,
            template,
            end,
            parameters,
            form,
            grammars: OnceLock::new(),
        })
    }

    /// True if a GPU computes it.
    pub fn is_on_gpu(&self) -> bool {
        matches!(self.network, DeviceNetwork::Gpu(_))
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file or folder that it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of values in all tensors.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The format and types of the weights, such as `GGUF, F32 and Q8_0`.
    pub fn form(&self) -> &str {
        &self.form
    }

    /// Bytes of weights that a token reads.
    pub fn weight_bytes(&self) -> usize {
        match &self.network {
            DeviceNetwork::Cpu(network) => network.bytes(),
            DeviceNetwork::Gpu(network) => network.bytes(),
        }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &ChatTokenizer {
        &self.tokenizer
    }

    /// The compiler of grammars for this model's tokens.
    ///
    /// # Errors
    /// [`Error::Internal`] for a vocabulary that cannot be used with grammars.
    pub fn grammars(&self) -> Result<&GrammarCompiler> {
        if self.grammars.get().is_none() {
            let pieces = (0u32..).take(self.tokenizer.size()).map(|token| self.tokenizer.bytes(token));
            let compiler = GrammarCompiler::new(pieces, &self.end)?;
            self.grammars.get_or_init(|| compiler);
        }
        self.grammars.get().ok_or_else(|| Error::internal("a compiler of grammars is not there"))
    }

    /// True for a token that ends an answer.
    pub fn is_end(&self, token: u32) -> bool {
        self.end.contains(&token)
    }

    /// The tokens around what a model thinks before it answers, if it can think.
    pub fn thinking_marks(&self) -> Option<[u32; 2]> {
        Some([self.tokenizer.mark("<think>")?, self.tokenizer.mark("</think>")?])
    }

    /// The chat template.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] if there is none.
    pub fn template(&self) -> Result<&ChatTemplate> {
        let none = || Error::InvalidOption(format!("{} has no chat template", self.path.display()));
        self.template.as_ref().ok_or_else(none)
    }

    /// The tokens of a conversation, up to where the answer begins, and of the answer's `beginning`. Control marks in `messages`, `tools`
    /// and `beginning` are text, but for those that begin a call.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] for a conversation that the model's template refuses.
    pub fn prompt(
        &self,
        messages: &[TemplateMessage],
        tools: &[TemplateCall],
        beginning: &str,
        thinking: bool,
        now: NaiveDateTime,
    ) -> Result<Vec<u32>> {
        let call = |call: &TemplateCall| self.shield_call(call);
        let shielded: Vec<TemplateMessage> = messages
            .iter()
            .map(|message| TemplateMessage {
                role: message.role,
                content: self.tokenizer.shield(&message.content),
                tool_calls: message.tool_calls.iter().map(call).collect(),
            })
            .collect();
        let tools: Vec<TemplateCall> = tools.iter().map(call).collect();
        let text = self.template()?.render(&shielded, &tools, thinking, now)?;
        self.tokenizer.encode(&(text + beginning))
    }

    fn shield_call(&self, call: &TemplateCall) -> TemplateCall {
        let TemplateFunction { name, description, parameters, arguments } = &call.function;
        let function = TemplateFunction {
            name: self.tokenizer.shield(name),
            description: description.as_ref().map(|text| self.tokenizer.shield(text)),
            parameters: parameters.as_ref().map(|value| self.shield_json(value)),
            arguments: arguments.as_ref().map(|value| self.shield_json(value)),
        };
        TemplateCall { kind: call.kind, function }
    }

    /// JSON whose texts and keys are shielded.
    fn shield_json(&self, value: &Json) -> Json {
        match value {
            Json::String(text) => Json::String(self.tokenizer.shield(text)),
            Json::Array(items) => items.iter().map(|item| self.shield_json(item)).collect(),
            Json::Object(items) => {
                items.iter().map(|(key, item)| (self.tokenizer.shield(key), self.shield_json(item))).collect()
            }
            plain => plain.clone(),
        }
    }

    /// The text that the model reads for a conversation.
    ///
    /// # Errors
    /// As [`ChatModel::prompt`].
    pub fn prompt_text(&self, messages: &[TemplateMessage], thinking: bool, now: NaiveDateTime) -> Result<String> {
        self.template()?.render(messages, &[], thinking, now)
    }

    /// An arena for the keys and values of this model's sequences, of at most `bytes`; at least one page.
    pub fn arena(&self, bytes: usize) -> PageArena {
        match &self.network {
            DeviceNetwork::Cpu(_) if widens_16_bits() => self.arena_of(PagePrecision::F16, bytes),
            DeviceNetwork::Cpu(_) => self.arena_of(PagePrecision::F32, bytes),
            DeviceNetwork::Gpu(network) => network.arena(bytes),
        }
    }

    /// As [`ChatModel::arena`] with keys and values of this precision; a GPU has that of its weights.
    pub fn arena_of(&self, precision: PagePrecision, bytes: usize) -> PageArena {
        match &self.network {
            DeviceNetwork::Cpu(network) => {
                let shape = network.page_shape();
                PageArena::new(shape, precision, (bytes / shape.bytes(precision)).max(1))
            }
            DeviceNetwork::Gpu(network) => network.arena(bytes),
        }
    }

    /// Computes the next tokens of sequences and stores their keys and values in an arena of this model. Gives the scores after the last token
    /// of each piece that wants them: `[pieces, outputs]`.
    ///
    /// # Errors
    /// [`Error::Device`] when the device failed.
    pub fn forward(&self, arena: &mut PageArena, pieces: &[Piece]) -> Result<Vec<f32>> {
        match &self.network {
            DeviceNetwork::Cpu(network) => Ok(network.forward(arena, pieces)),
            DeviceNetwork::Gpu(network) => network.forward(arena, pieces),
        }
    }

    /// As [`ChatModel::forward`], but gives the likeliest token after each piece that wants scores; none where no score is a number. A GPU
    /// keeps the scores.
    ///
    /// # Errors
    /// As [`ChatModel::forward`].
    pub fn likeliest(&self, arena: &mut PageArena, pieces: &[Piece]) -> Result<Vec<Option<u32>>> {
        match &self.network {
            DeviceNetwork::Cpu(network) => {
                let scores = network.forward(arena, pieces);
                let rows = scores.chunks_exact(self.config().vocabulary);
                Ok(rows.map(|row| likeliest_of(row).map(|at| at as u32)).collect())
            }
            DeviceNetwork::Gpu(network) => network.likeliest(arena, pieces),
        }
    }
}

/// The one GGUF file of a folder without `config.json`, or the first of its shards.
fn only_gguf(dir: &Path) -> Result<Option<PathBuf>> {
    if dir.join("config.json").is_file() {
        return Ok(None);
    }
    let bad = |reason: String| Error::Checkpoint { path: dir.to_path_buf(), reason };
    let entries = std::fs::read_dir(dir).map_err(|error| bad(format!("cannot read: {error}")))?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_gguf = |path: &PathBuf| path.extension().is_some_and(|end| end == "gguf") && !is_later_shard(path);
    let mut files: Vec<PathBuf> = paths.filter(is_gguf).collect();
    match files.len() {
        0 => Err(bad("has neither config.json nor a GGUF file".into())),
        1 => Ok(files.pop()),
        count => Err(bad(format!("has {count} GGUF files; name one of them"))),
    }
}

fn read_json(path: &Path) -> Result<Json> {
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| bad(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Json::Null),
        Err(error) => Err(bad(format!("cannot read: {error}"))),
    }
}
