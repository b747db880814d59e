//! ARPA files: n-gram models as text, as SRILM, KenLM and others write them.

use std::collections::HashMap;
use std::io::{BufRead, Read as _};

use super::ngram::{Entry, check_counts};
use super::{Parsed, normalised};

/// Longest line, bytes.
const MAX_LINE: u64 = 1 << 16;

/// Lines with their numbers, of bounded length.
struct Lines<R> {
    input: R,
    line: String,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    /// The next line that is not empty, without white space around it.
    fn next(&mut self) -> Result<&str, String> {
        loop {
            self.number += 1;
            self.line.clear();
            let mut limited = (&mut self.input).take(MAX_LINE);
            let read = limited.read_line(&mut self.line).map_err(|e| format!("line {}: {e}", self.number))?;
            if read == 0 {
                return Err(format!("line {}: the file ends before \\end\\", self.number));
            }
            if read as u64 == MAX_LINE {
                return Err(format!("line {}: longer than {MAX_LINE} bytes", self.number));
            }
            if !self.line.trim().is_empty() {
                return Ok(self.line.trim());
            }
        }
    }
}

/// Reads a model. The error is one line that names the line at fault.
pub(super) fn read(input: impl BufRead) -> Result<Parsed, String> {
    let mut lines = Lines { input, line: String::new(), number: 0 };
    // Any text may stand before the mark.
    while lines.next().map_err(|_| "no \\data\\ line, so this is no ARPA file".to_string())? != "\\data\\" {}
    let counts = header(&mut lines)?;
    let mut parsed = Parsed::default();
    let mut known: HashMap<String, u32> = HashMap::new();
    for length in 1..=counts.len() {
        if length > 1 {
            section(&mut lines, length)?;
        }
        let entries = (0..counts[length - 1])
            .map(|_| {
                let line = lines.next()?.to_string();
                let number = lines.number;
                entry(&line, length, &mut parsed, &mut known).map_err(|e| format!("line {number}: {e}"))
            })
            .collect::<Result<Vec<Entry>, String>>()?;
        parsed.ngram.push_level(entries);
    }
    let end = lines.next()?.to_string();
    if end != "\\end\\" {
        let sum: usize = counts.iter().sum();
        return Err(format!("line {}: \\end\\ should stand here, after the {sum} n-grams announced", lines.number));
    }
    parsed.ngram.finish(known.get("<s>").copied());
    Ok(parsed)
}

/// Reads `ngram 1=5` and so on, to the mark of the first section.
fn header(lines: &mut Lines<impl BufRead>) -> Result<Vec<usize>, String> {
    let mut counts = Vec::new();
    loop {
        let line = lines.next()?.to_string();
        if line == "\\1-grams:" {
            check_counts(&counts).map_err(|e| format!("line {}: {e}", lines.number))?;
            return Ok(counts);
        }
        let count = line.strip_prefix("ngram ").and_then(|rest| rest.split_once('='));
        let count = count.filter(|(length, _)| length.trim() == (counts.len() + 1).to_string());
        let count = count.and_then(|(_, count)| count.trim().parse().ok());
        let wanted = || format!("line {}: \"ngram {}=COUNT\" should stand here", lines.number, counts.len() + 1);
        counts.push(count.ok_or_else(wanted)?);
    }
}

fn section(lines: &mut Lines<impl BufRead>, length: usize) -> Result<(), String> {
    let mark = format!("\\{length}-grams:");
    if lines.next()? == mark { Ok(()) } else { Err(format!("line {}: {mark} should stand here", lines.number)) }
}

/// Reads `log10(p) word ... [log10(backoff)]`.
fn entry(line: &str, length: usize, parsed: &mut Parsed, known: &mut HashMap<String, u32>) -> Result<Entry, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let with_backoff = fields.len() == length + 2;
    if fields.len() != length + 1 && !with_backoff {
        return Err(format!("a log probability, {length} words and perhaps a backoff should stand here"));
    }
    let number = |text: &str| {
        let value = text.parse::<f32>().ok().filter(|value| value.is_finite());
        // The file has logarithms to base 10; natural logarithms are stored.
        value.map(|value| value * std::f32::consts::LN_10).ok_or_else(|| format!("{text:?} is no number"))
    };
    let log_prob = number(fields[0])?;
    if log_prob > 0.0 {
        return Err(format!("{} is no logarithm of a probability", fields[0]));
    }
    let backoff = if with_backoff { number(fields[length + 1])? } else { 0.0 };
    let words: Vec<String> = fields[1..=length].iter().map(|word| normalised(word)).collect();
    if let [word] = words.as_slice() {
        // Two spellings of one word, "The" and "the", share a number; the likelier entry stays.
        let next = known.len() as u32;
        let id = *known.entry(word.clone()).or_insert(next);
        if id == next {
            parsed.words.push(word.clone());
        }
        return Ok(Entry { parent: 0, word: id, log_prob, backoff });
    }
    let ids: Vec<u32> = words
        .iter()
        .map(|word| known.get(word).copied().ok_or_else(|| format!("{word:?} is none of the words of \\1-grams:")))
        .collect::<Result<_, String>>()?;
    let (word, context) = (ids[length - 1], &ids[..length - 1]);
    let parent = parsed.ngram.find(context).ok_or_else(|| {
        format!("{:?} is none of the {}-grams, so nothing can continue it", words[..length - 1].join(" "), length - 1)
    })?;
    Ok(Entry { parent, word, log_prob, backoff })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "made by hand\n\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\t-0.3\n-0.5\tThe\t-0.2\n\
                        -1.5\tcat\n\n\\2-grams:\n-0.1\t<s> the\n-0.4\tThe cat\n\n\\end\\\n";

    fn error(text: &str) -> String {
        read(text.as_bytes()).err().unwrap_or_default()
    }

    #[test]
    fn words_are_lower_case_and_numbers_natural_logarithms() {
        let parsed = read(GOOD.as_bytes()).unwrap();
        assert_eq!(parsed.words, ["<unk>", "<s>", "the", "cat"]);
        let (score, context) = parsed.ngram.score(&parsed.ngram.start(), 2);
        assert!((score + 0.1 * std::f32::consts::LN_10).abs() < 1e-6);
        assert!((parsed.ngram.score(&context, 3).0 + 0.4 * std::f32::consts::LN_10).abs() < 1e-6);
    }

    #[test]
    fn an_error_names_its_line() {
        for (from, to, wanted) in [
            ("\\data\\", "data", "no \\data\\ line"),
            ("ngram 2=2", "ngram 3=2", "line 4: \"ngram 2=COUNT\""),
            ("ngram 1=4", "ngram 1=5", "line 12: a log probability, 1 words"),
            ("ngram 2=2", "ngram 2=1", "line 14: \\end\\"),
            ("-0.5\tThe", "x\tThe", "line 9: \"x\" is no number"),
            ("-0.5\tThe", "0.5\tThe", "line 9: 0.5 is no logarithm"),
            ("-0.1\t<s> the", "-0.1\t<s> dog", "line 13: \"dog\" is none of the words"),
            ("\\2-grams:", "\\3-grams:", "line 12: \\2-grams:"),
            ("\n\\end\\\n", "", "line 15: the file ends"),
        ] {
            assert!(
                error(&GOOD.replace(from, to)).starts_with(wanted),
                "{from} {to}: {}",
                error(&GOOD.replace(from, to))
            );
        }
        assert!(error(&format!("\\data\\\n{}", "x".repeat(1 << 17))).contains("longer than"));
        assert!(error("\\data\\\nngram 1=99999999999\n\\1-grams:\n").contains("more than"));
    }
}
