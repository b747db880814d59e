//! Captions of wide scripts and of spaced marks, cues that would flash, and words that are underlined.

use super::line_breaks::{columns, is_mark};
use super::*;

fn word(text: &str, start: u64, end: u64) -> Word {
    Word { text: text.into(), start, end, confidence: 1.0, speaker: None, speaker_name: None, channel: None }
}

/// Words one after the other, `each_ms` long.
fn spoken(words: &[&str], each_ms: u64) -> Vec<Word> {
    words.iter().zip(0..).map(|(text, at)| word(text, at * each_ms, (at + 1) * each_ms)).collect()
}

fn narrow(line_chars: usize) -> SubtitleOptions {
    SubtitleOptions { line_chars, ..SubtitleOptions::default() }
}

/// Start, end and lines of every cue.
fn cues(words: &[Word], options: &SubtitleOptions) -> Vec<(u64, u64, Vec<String>)> {
    let captions = Captions::new(words, options, SpeakerNames::InText);
    let shown = |cue: &Cue| {
        let mut text = String::new();
        captions.write(cue, None, |text, out| out.push_str(text), &mut text);
        (cue.start_ms, cue.end_ms, text.lines().map(str::to_owned).collect())
    };
    captions.cues.iter().map(shown).collect()
}

fn lines(words: &[Word], options: &SubtitleOptions) -> Vec<String> {
    cues(words, options).into_iter().flat_map(|(_, _, lines)| lines).collect()
}

fn times(words: &[Word], options: &SubtitleOptions) -> Vec<(u64, u64)> {
    cues(words, options).into_iter().map(|(start, end, _)| (start, end)).collect()
}

#[test]
fn wide_characters_fill_a_line_twice_as_fast() {
    let words = spoken(&["语"; 40], 100);
    let lines = lines(&words, &SubtitleOptions::default());
    assert_eq!(lines.concat(), "语".repeat(40));
    assert!(lines.iter().all(|line| columns(line) <= 42), "{lines:?}");
    // A letter with an accent of its own is one column.
    let words = spoken(&["e\u{301}e\u{301}e\u{301}e\u{301}", "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}"], 300);
    assert_eq!(cues(&words, &narrow(10))[0].2.len(), 1);
}

#[test]
fn a_long_word_of_a_script_without_spaces_is_cut_and_its_time_with_it() {
    let text =
        "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。何でも薄暗いじめじめした所で泣いていた。";
    let words = [word(text, 0, 9_000), word("そう", 8_000, 9_500)];
    for width in [8, 12, 20, 42] {
        let cues = cues(&words, &narrow(width));
        let lines: Vec<&str> = cues.iter().flat_map(|(_, _, lines)| lines).map(String::as_str).collect();
        assert_eq!(lines.concat(), format!("{text}そう"));
        assert!(lines.iter().all(|line| columns(line) <= width), "{width}: {lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with(['。', 'っ', 'ー'])), "{width}: {lines:?}");
        assert!(cues.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{cues:?}");
    }
}

#[test]
fn no_line_begins_with_a_mark_that_belongs_to_the_word_before() {
    let french = "Est-ce que tu viens ? Non ! Il a dit « jamais » : voilà tout ; c'est 50 % de moins .NET ... enfin";
    let chinese = ["你", "好", "，", "「", "世", "界", "」", "。", "真", "的", "吗", "？", "走", "っ", "て", "ー"];
    let french: Vec<&str> = french.split(' ').collect();
    for words in [&french[..], &chinese[..]] {
        for width in 1..30 {
            let lines = lines(&spoken(words, 240), &narrow(width));
            assert_eq!(lines.concat().replace(' ', ""), words.concat(), "{width}");
            for line in &lines {
                let first = line.split(' ').next().unwrap_or_default();
                assert!(!is_mark(first) || first == "«", "{width}: {line:?}");
                assert!(!line.starts_with(['，', '。', '」', '？', 'っ', 'ー']), "{width}: {line:?}");
                assert!(!line.ends_with(['«', '「']), "{width}: {line:?}");
            }
        }
    }
    let dialogue = spoken(&["—", "Tu", "viens", "demain", "matin", "?", "—", "Non", "."], 300);
    assert_eq!(lines(&dialogue, &narrow(20)), ["— Tu viens", "demain matin ?", "— Non ."]);
}

#[test]
fn a_mark_stays_with_its_word_over_a_pause() {
    let words = [word("Tu", 0, 300), word("viens", 300, 900), word("?", 2_400, 2_500), word("Oui.", 2_600, 3_300)];
    assert_eq!(lines(&words, &SubtitleOptions::default()), ["Tu viens ?", "Oui."]);
}

#[test]
fn a_short_cue_takes_the_room_around_it() {
    let options = SubtitleOptions { audio_ms: Some(10_000), ..SubtitleOptions::default() };
    // After it; before it, where the next one is near; both; the start and the end of the audio.
    let words = [
        word("Yes.", 100, 200),
        word("No.", 2_000, 2_100),
        word("Well.", 3_900, 4_000),
        word("Go.", 5_100, 5_200),
        word("So.", 9_900, 9_950),
    ];
    assert_eq!(times(&words, &options), [(100, 600), (2_000, 2_500), (3_900, 4_400), (5_100, 5_600), (9_500, 10_000)]);
    let said = |text: &str, start: u64, end: u64, speaker: &str| Word {
        speaker: Some(speaker.into()),
        ..word(text, start, end)
    };
    let words = [said("Ja.", 1_000, 1_100, "A"), said("Nein.", 1_200, 3_000, "B"), said("Doch.", 3_000, 3_100, "A")];
    let options = SubtitleOptions { audio_ms: Some(3_200), ..options };
    assert_eq!(times(&words, &options), [(700, 1_200), (1_200, 3_000), (3_000, 3_200)]);
}

#[test]
fn a_crowded_cue_joins_a_neighbour_where_both_fit() {
    let words = [
        word("That", 0, 500),
        word("was", 500, 900),
        word("all.", 900, 1_500),
        word("Right.", 1_500, 1_700),
        word("Now,", 2_900, 3_400),
    ];
    let crowded = SubtitleOptions { audio_ms: Some(1_700), ..SubtitleOptions::default() };
    assert_eq!(lines(&words[..4], &crowded), ["That was all. Right."]);
    // With room after it, it stands alone.
    assert_eq!(lines(&words, &SubtitleOptions::default()), ["That was all.", "Right.", "Now,"]);
    // Two lines of 8 have no place for both.
    assert_eq!(cues(&words[..4], &SubtitleOptions { line_chars: 8, ..crowded }).len(), 2);
}

#[test]
fn a_cue_has_as_many_lines_as_are_allowed() {
    let words = spoken(&["word"; 24], 200);
    for line_count in 1..=4 {
        let options = SubtitleOptions { line_count, ..narrow(14) };
        let cues = cues(&words, &options);
        assert_eq!(cues.iter().map(|cue| cue.2.len()).max(), Some(line_count));
        assert!(cues.iter().flat_map(|cue| &cue.2).all(|line| line.len() <= 14), "{cues:?}");
    }
}

#[test]
fn each_word_is_underlined_while_it_is_spoken() {
    let words = [
        Word { speaker: Some("A".into()), ..word("R&D,", 100, 400) },
        Word { speaker: Some("A".into()), ..word("bon", 600, 1_000) },
        Word { speaker: Some("A".into()), ..word("?", 1_000, 1_100) },
    ];
    let options = SubtitleOptions { highlight_words: true, ..SubtitleOptions::default() };
    assert_eq!(
        srt(&words, &options),
        "1\n00:00:00,100 --> 00:00:00,600\nA: <u>R&D,</u> bon ?\n\n\
         2\n00:00:00,600 --> 00:00:01,100\nA: R&D, <u>bon</u> ?\n"
    );
    assert_eq!(
        vtt(&words, &options),
        "WEBVTT\n\n00:00:00.100 --> 00:00:00.600\n<v A><u>R&amp;D,</u> bon ?\n\n\
         00:00:00.600 --> 00:00:01.100\n<v A>R&amp;D, <u>bon</u> ?\n"
    );
    // Words without a time of their own, and a cue of marks alone.
    let words = [word("a", 0, 0), word("b", 0, 0), word("c", 0, 900), word("…", 5_000, 5_100)];
    let frames: Vec<(u64, u64, Option<usize>)> = {
        let captions = Captions::new(&words, &options, SpeakerNames::InText);
        captions.cues.iter().flat_map(|cue| captions.frames(cue)).map(|f| (f.start_ms, f.end_ms, f.word)).collect()
    };
    assert_eq!(frames, [(0, 1, Some(0)), (1, 2, Some(1)), (2, 900, Some(2))]);
}

#[test]
fn highlighting_changes_neither_the_text_nor_the_order_of_times() {
    let words = spoken(&["Und", "so", "fort,", "bis", "zum", "Ende", "der", "langen", "Rede."], 250);
    for line_chars in [5, 12, 42] {
        let plain = narrow(line_chars);
        let captions = Captions::new(&words, &plain, SpeakerNames::InText);
        let marked = SubtitleOptions { highlight_words: true, ..plain.clone() };
        let highlighted = Captions::new(&words, &marked, SpeakerNames::InText);
        assert_eq!(captions.cues, highlighted.cues);
        for cue in &highlighted.cues {
            let frames = highlighted.frames(cue);
            assert_eq!(frames.len(), cue.words.len());
            assert_eq!((frames[0].start_ms, frames[frames.len() - 1].end_ms), (cue.start_ms, cue.end_ms));
            assert!(frames.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms), "{frames:?}");
        }
    }
}
