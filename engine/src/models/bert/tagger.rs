//! Personal words by a token classifier.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use auricle_kernels::product::gemv::Precision;
use tokenizers::Tokenizer;

use super::model::{Token, TokenClassifier};
use super::windows::{Window, windows};
use crate::error::{Error, Result};
use crate::load_once::Loaded;
use crate::text::analysis::{Finding, Label, Source, Tagger, Turn};

/// Most tokens of a window: more text around a word tells no more about it, and takes longer.
const MOST_TOKENS: usize = 128;

/// Most pieces of a word, where half a window has as many. Its label is read at the first one.
const MOST_PIECES: usize = 24;

/// Tokens that go through the network together.
const BATCH_TOKENS: usize = 512;

/// Tells names, places and the like apart by the words around them.
#[derive(Debug)]
pub struct BertTagger {
    network: TokenClassifier,
    tokenizer: Tokenizer,
    /// The tokens before and behind the text of a window.
    frame: [Vec<Token>; 2],
    /// Tokens of a window beside these.
    room: usize,
    /// Of each score.
    classes: Vec<Class>,
    ignored: Vec<String>,
}

/// The meaning of a score.
#[derive(Debug)]
struct Class {
    /// None for no entity and for labels without a meaning here.
    label: Option<Label>,
    /// The label's name without its mark: two names may have one meaning.
    name: String,
    /// True if it begins an entity, where its own kind may stand before.
    begins: bool,
}

/// The best label of a word.
#[derive(Clone, Copy, Debug)]
struct Tag {
    label: Label,
    /// The class with the highest score among those of the label.
    class: usize,
    /// The sum of the probabilities of the label's classes.
    confidence: f32,
}

impl Loaded for BertTagger {}

impl BertTagger {
    /// Loads the folder of a `BertForTokenClassification` with its `tokenizer.json`. With 8 bits, products are in 8 bits where the
    /// processor is faster with them.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
    pub fn load(dir: &Path, precision: Precision) -> Result<Self> {
        let network = TokenClassifier::load(dir, precision)?;
        let config = network.config();
        let path = dir.join("tokenizer.json");
        let bad = |reason: String| Error::Checkpoint { path: path.clone(), reason };
        let mut tokenizer = Tokenizer::from_file(&path).map_err(|e| bad(e.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| bad(e.to_string()))?;
        let largest = tokenizer.get_vocab(true).into_values().max();
        if largest.is_none_or(|id| id as usize >= config.vocab_size) {
            let (size, known) = (config.vocab_size, largest.map_or(0, |id| id as usize + 1));
            return Err(bad(format!("{known} tokens, the network has {size}")));
        }
        let bad = |reason: &str| Error::Checkpoint { path: dir.join("config.json"), reason: reason.into() };
        let frame = frame(&tokenizer).map_err(|e| Error::Checkpoint { path: path.clone(), reason: e })?;
        let framing = frame.iter().map(Vec::len).sum::<usize>();
        let room = MOST_TOKENS.min(config.max_position_embeddings).saturating_sub(framing);
        if room < 2 {
            return Err(bad("there are no positions for words"));
        }
        let names = (0..config.labels()).map(|id| config.label(id));
        let names: Vec<&str> = names.collect::<Option<_>>().ok_or_else(|| bad("id2label does not name every label"))?;
        let classes: Vec<Class> = names.into_iter().map(class).collect();
        if classes.iter().all(|class| class.label.is_none()) {
            return Err(bad("id2label has no label of names, places or other personal words"));
        }
        let ignored = classes.iter().filter(|class| class.label.is_none() && class.name != "O");
        let mut ignored: Vec<String> = ignored.map(|class| class.name.clone()).collect();
        ignored.sort();
        ignored.dedup();
        Ok(Self { network, tokenizer, frame, room, classes, ignored })
    }

    /// Values in the checkpoint's tensors.
    pub fn parameters(&self) -> usize {
        self.network.parameters()
    }

    /// The pieces of all words, and where each word's begin and the last one's end.
    fn pieces(&self, words: &[Turn<'_>]) -> Result<(Vec<u32>, Vec<usize>)> {
        let mut pieces: Vec<u32> = Vec::with_capacity(2 * words.len());
        let mut starts = Vec::with_capacity(words.len() + 1);
        // Most words of a text come again.
        let mut seen: HashMap<&str, Range<usize>> = HashMap::new();
        for word in words {
            let start = pieces.len();
            starts.push(start);
            if let Some(known) = seen.get(word.text) {
                pieces.extend_from_within(known.clone());
                continue;
            }
            let encoded = self.tokenizer.encode_fast(word.text, false);
            let encoded = encoded.map_err(|e| Error::internal(format!("a word cannot be cut into tokens: {e}")))?;
            pieces.extend(encoded.get_ids().iter().take(MOST_PIECES.min(self.room / 2)));
            seen.insert(word.text, start..pieces.len());
        }
        starts.push(pieces.len());
        Ok((pieces, starts))
    }

    /// The tokens of a window.
    fn row(&self, words: &[Turn<'_>], window: &Window, pieces: &[u32], starts: &[usize]) -> Vec<Token> {
        let [before, after] = &self.frame;
        let mut row = before.clone();
        for at in window.words.clone() {
            let kind = if self.network.config().has_case_types() { case_type(words[at].text) } else { 0 };
            row.extend(pieces[starts[at]..starts[at + 1]].iter().map(|id| Token { id: *id as usize, kind }));
        }
        row.extend(after);
        row
    }

    /// The tag of a word from the scores at its first piece; none where no entity is more likely.
    fn tag_of(&self, scores: &[f32]) -> Option<Tag> {
        let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let likely: Vec<f32> = scores.iter().map(|score| (score - most).exp()).collect();
        let all: f32 = likely.iter().sum();
        let (mut none, mut sums) = (0.0, [0f32; Label::ALL.len()]);
        for (class, likely) in self.classes.iter().zip(&likely) {
            match class.label {
                Some(label) => sums[label as usize] += likely,
                None => none += likely,
            }
        }
        let of = |label: &Label| sums[*label as usize];
        let label = Label::ALL.iter().copied().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        if of(&label) <= none {
            return None;
        }
        let classes = self.classes.iter().enumerate().filter(|(_, class)| class.label == Some(label));
        let (class, _) = classes.max_by(|(a, _), (b, _)| likely[*a].total_cmp(&likely[*b]))?;
        Some(Tag { label, class, confidence: of(&label) / all })
    }

    /// Runs of words with one label.
    fn findings(&self, words: &[Turn<'_>], tags: &[Option<Tag>]) -> Vec<Finding> {
        let mut found: Vec<(Finding, Tag)> = Vec::new();
        for (at, tag) in tags.iter().enumerate() {
            let Some(tag) = *tag else { continue };
            match found.last_mut() {
                Some((last, before))
                    if last.words.end == at
                        && last.label == tag.label
                        && !words[at - 1].ends
                        && !(self.classes[tag.class].begins
                            && self.classes[tag.class].name == self.classes[before.class].name) =>
                {
                    last.words.end = at + 1;
                    last.confidence += tag.confidence;
                    *before = tag;
                }
                _ => {
                    let (words, label, confidence) = (at..at + 1, tag.label, tag.confidence);
                    found.push((Finding { words, label, confidence, source: Source::Tagger }, tag));
                }
            }
        }
        let found = found.into_iter().map(|(mut finding, _)| {
            finding.confidence /= finding.words.len() as f32;
            let is_mark = |at: usize| !words[at].text.contains(char::is_alphanumeric);
            while !finding.words.is_empty() && is_mark(finding.words.start) {
                finding.words.start += 1;
            }
            while !finding.words.is_empty() && is_mark(finding.words.end - 1) {
                finding.words.end -= 1;
            }
            finding
        });
        let least = self.network.config().auricle_least_confidence;
        found.filter(|finding| !finding.words.is_empty() && finding.confidence >= least).collect()
    }
}

impl Tagger for BertTagger {
    fn tag(&self, words: &[Turn<'_>]) -> Result<Vec<Finding>> {
        let (pieces, starts) = self.pieces(words)?;
        let windows = windows(words, &starts, self.room);
        let mut tags: Vec<Option<Tag>> = vec![None; words.len()];
        let labels = self.classes.len();
        let tokens = |window: &Window| starts[window.words.end] - starts[window.words.start];
        let mut rest = windows.as_slice();
        while !rest.is_empty() {
            let mut room = BATCH_TOKENS;
            let fits = rest.iter().take_while(|window| {
                let fits = tokens(window) <= room;
                room = room.saturating_sub(tokens(window));
                fits
            });
            let (batch, after) = rest.split_at(fits.count().max(1));
            rest = after;
            let batch: Vec<&Window> = batch.iter().filter(|window| tokens(window) > 0).collect();
            let rows: Vec<Vec<Token>> = batch.iter().map(|window| self.row(words, window, &pieces, &starts)).collect();
            let scores = self.network.forward(&rows)?;
            let mut first = 0;
            for (window, row) in batch.into_iter().zip(&rows) {
                for at in window.kept.clone().filter(|at| starts[*at] < starts[at + 1]) {
                    let token = first + self.frame[0].len() + starts[at] - starts[window.words.start];
                    tags[at] = self.tag_of(&scores[token * labels..(token + 1) * labels]);
                }
                first += row.len();
            }
        }
        Ok(self.findings(words, &tags))
    }

    fn ignored_labels(&self) -> &[String] {
        &self.ignored
    }
}

/// The special tokens that a tokenizer puts before and behind a text.
fn frame(tokenizer: &Tokenizer) -> std::result::Result<[Vec<Token>; 2], String> {
    let encoded = tokenizer.encode("a", true).map_err(|e| e.to_string())?;
    let (ids, special) = (encoded.get_ids(), encoded.get_special_tokens_mask());
    let before = special.iter().take_while(|special| **special == 1).count();
    let after = special.iter().skip(before).rev().take_while(|special| **special == 1).count();
    let tokens = |ids: &[u32]| ids.iter().map(|id| Token { id: *id as usize, kind: 0 }).collect();
    Ok([tokens(&ids[..before]), tokens(&ids[ids.len() - after..])])
}

/// The type of the tokens of a word: 0 without capitals, 1 with a capital first, 2 in capitals, 3 mixed.
fn case_type(word: &str) -> usize {
    let mut letters = word.chars().filter(|letter| letter.is_alphabetic()).map(char::is_uppercase);
    let Some(first) = letters.next() else { return 0 };
    let (mut others, mut capitals) = (0, 0);
    for is_capital in letters {
        others += 1;
        capitals += usize::from(is_capital);
    }
    match (first, capitals) {
        (false, 0) => 0,
        (true, 0) => 1,
        (true, capitals) if capitals == others => 2,
        _ => 3,
    }
}

/// The meaning of a label of a checkpoint.
fn class(name: &str) -> Class {
    let marked = name.split_once('-').filter(|(mark, _)| matches!(*mark, "B" | "I" | "E" | "S" | "L" | "U"));
    let (mark, name) = marked.unwrap_or(("I", name));
    Class { label: label(name), name: name.into(), begins: matches!(mark, "B" | "S" | "U") }
}

/// The label of a name in published checkpoints, where its meaning is certain. Countries stay, as redaction leaves them.
fn label(name: &str) -> Option<Label> {
    if let Some(label) = Label::named(name) {
        return Some(label);
    }
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_uppercase();
    Some(match name.as_str() {
        "PER" | "PERSON" | "NAME" | "GIVENNAME" | "FIRSTNAME" | "MIDDLENAME" | "LASTNAME" | "SURNAME" | "FULLNAME" => {
            Label::PersonName
        }
        "LOC" | "ADDRESS" | "STREETADDRESS" | "STREET" | "STREETNAME" | "BUILDINGNUM" | "BUILDINGNUMBER"
        | "SECONDARYADDRESS" | "CITY" | "STATE" | "COUNTY" | "ZIP" | "ZIPCODE" | "POSTCODE" | "POSTALCODE" => {
            Label::Location
        }
        "ORG" | "COMPANY" | "COMPANYNAME" => Label::Organization,
        "EMAIL" => Label::EmailAddress,
        "PHONE" | "TELEPHONE" | "TELEPHONENUM" | "TELEPHONENUMBER" => Label::PhoneNumber,
        "SSN" | "SOCIALSECURITYNUMBER" => Label::UsSocialSecurityNumber,
        "CREDITCARD" | "CREDITCARDNUMBER" => Label::CreditCardNumber,
        "CVV" | "CREDITCARDCVV" => Label::CreditCardCvv,
        "BANKACCOUNT" | "ACCOUNTNUM" | "ACCOUNTNUMBER" => Label::AccountNumber,
        "IBAN" | "ROUTINGNUMBER" => Label::BankingInformation,
        "PASSPORT" | "PASSPORTNUM" | "PASSPORTNUMBER" => Label::PassportNumber,
        "DRIVERLICENSE" | "DRIVERLICENSENUM" | "DRIVERSLICENSE" => Label::DriversLicense,
        "LICENSEPLATE" | "VEHICLEVIN" | "VEHICLEVRM" => Label::VehicleId,
        "IP" | "IPADDRESS" | "IPV4" | "IPV6" => Label::IpAddress,
        "URL" => Label::Url,
        "USERNAME" => Label::Username,
        "PASSWORD" | "PIN" => Label::Password,
        "AGE" => Label::PersonAge,
        "DOB" | "DATEOFBIRTH" => Label::DateOfBirth,
        _ => return None,
    })
}
