//! A transcript as a document of a word processor: title, facts, summary, chapters, and paragraphs with times and speakers.

use std::io;

use auricle_engine::Word;
use auricle_engine::segments;
use chrono::DateTime;

use super::insights::Insights;
use super::shown::{duration, language};
use super::words::EN;
use super::zip::archive;
use crate::store::{SpeakerNames, Transcript};

pub const CONTENT_TYPE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

/// Size of the letters of times and facts, in half points. Those of the text and the headings are in [`STYLES`].
const SMALL: usize = 18;

/// The colour of what is not said: times and facts.
const SOFT: &str = "5F6B7A";

/// The colours of speakers, in their order; dark enough on white paper.
const SPEAKERS: [&str; 6] = ["1D4ED8", "B45309", "047857", "A21CAF", "B91C1C", "0E7490"];

/// The parts of the package that are the same in every document.
const CONTENT_TYPES: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/>
<Override PartName="/word/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/>
<Override PartName="/docProps/core.xml" ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>
</Types>"#;
const PACKAGE: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="document" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="word/document.xml"/>
<Relationship Id="properties" Type="http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties" Target="docProps/core.xml"/>
</Relationships>"#;
const DOCUMENT: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="styles" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles" Target="styles.xml"/>
</Relationships>"#;
const STYLES: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
<w:docDefaults>
<w:rPrDefault><w:rPr><w:rFonts w:ascii="Calibri" w:hAnsi="Calibri"/><w:sz w:val="22"/><w:szCs w:val="22"/></w:rPr></w:rPrDefault>
<w:pPrDefault><w:pPr><w:spacing w:after="140"/></w:pPr></w:pPrDefault>
</w:docDefaults>
<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>
<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/><w:basedOn w:val="Normal"/>
<w:rPr><w:b/><w:sz w:val="40"/><w:szCs w:val="40"/></w:rPr></w:style>
<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:basedOn w:val="Normal"/>
<w:pPr><w:keepNext/><w:outlineLvl w:val="0"/></w:pPr><w:rPr><w:b/><w:sz w:val="28"/><w:szCs w:val="28"/></w:rPr></w:style>
</w:styles>"#;

/// The parts of a document beside its words, which a reader may leave out.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub times: bool,
}

/// Length, language, model and day of a transcript.
pub fn facts(transcript: &Transcript) -> String {
    let created = DateTime::from_timestamp_millis(transcript.created_at).unwrap_or_default();
    let facts = [
        Some(duration(transcript.duration_ms.unwrap_or(0))),
        transcript.language_code.as_deref().map(language),
        Some(transcript.model.clone()),
        Some(created.format("%Y-%m-%d").to_string()),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The look of a run of text.
#[derive(Clone, Copy)]
enum Look {
    Text,
    Bold,
    /// Times and facts.
    Soft,
    /// The name of a speaker, in their colour.
    Speaker(&'static str),
}

/// Text on one line, without the characters that XML lacks.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            character if character.is_control() => out.push(' '),
            character => out.push(character),
        }
    }
    out
}

fn run(look: Look, text: &str) -> String {
    let properties = match look {
        Look::Text => String::new(),
        Look::Bold => "<w:b/>".to_owned(),
        Look::Soft => format!(r#"<w:color w:val="{SOFT}"/><w:sz w:val="{SMALL}"/><w:szCs w:val="{SMALL}"/>"#),
        Look::Speaker(colour) => format!(r#"<w:b/><w:color w:val="{colour}"/>"#),
    };
    let text = escaped(text);
    format!(r#"<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>"#)
}

fn paragraph(style: &str, runs: &str) -> String {
    format!(r#"<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr>{runs}</w:p>"#)
}

fn heading(text: &str) -> String {
    paragraph("Heading1", &run(Look::Text, text))
}

/// The time of a paragraph, before its text.
fn time(ms: i64) -> String {
    run(Look::Soft, &format!("{}  ", duration(ms)))
}

/// The document.
///
/// # Errors
/// If it cannot be packed.
pub fn document(transcript: &Transcript, words: &[Word], names: &SpeakerNames, parts: Parts) -> io::Result<Vec<u8>> {
    let title = transcript.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or(EN.untitled);
    let length_ms = transcript.duration_ms.unwrap_or(0);
    let insights = Insights::new(transcript.analysis.as_deref().unwrap_or_default(), length_ms);
    let created = DateTime::from_timestamp_millis(transcript.created_at).unwrap_or_default();
    let mut body = paragraph("Title", &run(Look::Text, title));
    body += &paragraph("Normal", &run(Look::Soft, &facts(transcript)));
    if !insights.summary.is_empty() {
        body += &heading(EN.summary);
        let mark = if insights.summary_is_list { "• " } else { "" };
        for line in &insights.summary {
            body += &paragraph("Normal", &run(Look::Text, &format!("{mark}{line}")));
        }
    }
    if !insights.chapters.is_empty() {
        body += &heading(EN.chapters);
        for chapter in &insights.chapters {
            let runs = [
                time(chapter.start),
                run(Look::Bold, &chapter.headline),
                run(Look::Text, &format!("  {}", chapter.summary)),
            ];
            body += &paragraph("Normal", &runs.concat());
        }
    }
    body += &heading(EN.transcript);
    let mut speakers: Vec<&str> = Vec::new();
    let mut last = None;
    for said in segments::paragraphs(words) {
        let mut runs = if parts.times { time(i64::try_from(said.start).unwrap_or(0)) } else { String::new() };
        if let Some(label) = said.speaker {
            let place = speakers.iter().position(|known| *known == label).unwrap_or_else(|| {
                speakers.push(label);
                speakers.len() - 1
            });
            if last != Some(label) {
                let known = said.words.first().and_then(Word::shown_speaker).unwrap_or(label);
                let name = names.get(label).map_or(known, String::as_str);
                let colour = SPEAKERS.get(place % SPEAKERS.len()).copied().unwrap_or(SOFT);
                runs += &run(Look::Speaker(colour), &format!("{name}: "));
            }
            last = Some(label);
        }
        body += &paragraph("Normal", &(runs + &run(Look::Text, &said.text)));
    }
    pack(&body, &created.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// The package of a document of these paragraphs, on A4 pages.
fn pack(body: &str, created: &str) -> io::Result<Vec<u8>> {
    let head = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
    let document = format!(
        r#"{head}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>{body}<w:sectPr><w:pgSz w:w="11906" w:h="16838"/><w:pgMar w:top="1985" w:right="1701" w:bottom="1701" w:left="1701" w:header="851" w:footer="992" w:gutter="0"/></w:sectPr></w:body></w:document>"#
    );
    let mut properties = format!(
        r#"{head}<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dcterms="http://purl.org/dc/terms/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">"#
    );
    for name in ["created", "modified"] {
        properties += &format!(r#"<dcterms:{name} xsi:type="dcterms:W3CDTF">{created}</dcterms:{name}>"#);
    }
    properties += "</cp:coreProperties>";
    archive(&[
        ("[Content_Types].xml", CONTENT_TYPES.as_bytes()),
        ("_rels/.rels", PACKAGE.as_bytes()),
        ("docProps/core.xml", properties.as_bytes()),
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", DOCUMENT.as_bytes()),
        ("word/styles.xml", STYLES.as_bytes()),
    ])
}
