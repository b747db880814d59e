//! Captions: the rules by example, then over random words.

use super::*;

fn word(text: &str, start: u64, end: u64) -> Word {
    Word { text: text.into(), start, end, confidence: 1.0, speaker: None, speaker_name: None, channel: None }
}

/// Evenly spoken text: 300 ms a word, the first at 0.
fn spoken(text: &str) -> Vec<Word> {
    text.split(' ').zip((0..).step_by(300)).map(|(text, start)| word(text, start, start + 300)).collect()
}

/// A cue with its text.
#[derive(Debug)]
struct Shown {
    start_ms: u64,
    end_ms: u64,
    lines: Vec<String>,
}

fn cues(words: &[Word], options: &SubtitleOptions) -> Vec<Shown> {
    let captions = Captions::new(words, options, SpeakerNames::InText);
    let shown = |cue: &Cue| {
        let mut text = String::new();
        captions.write(cue, None, |text, out| out.push_str(text), &mut text);
        Shown { start_ms: cue.start_ms, end_ms: cue.end_ms, lines: text.lines().map(str::to_owned).collect() }
    };
    captions.cues.iter().map(shown).collect()
}

/// The lines of every cue.
fn captions(words: &[Word]) -> Vec<Vec<String>> {
    cues(words, &SubtitleOptions::default()).into_iter().map(|cue| cue.lines).collect()
}

#[test]
fn srt_is_numbered_with_comma_times_and_plain_line_feeds() {
    let words = [word("Hello", 0, 400), word("there.", 450, 1_200), word("Bye.", 3_661_001, 3_661_999)];
    assert_eq!(
        srt(&words, &SubtitleOptions::default()),
        "1\n00:00:00,000 --> 00:00:01,200\nHello there.\n\n2\n01:01:01,001 --> 01:01:01,999\nBye.\n"
    );
}

#[test]
fn vtt_has_its_header_its_blank_line_and_escapes() {
    let words = [word("R&D", 0, 400), word("<b>", 450, 900), word("-->", 900, 1_100)];
    assert_eq!(
        vtt(&words, &SubtitleOptions::default()),
        "WEBVTT\n\n00:00:00.000 --> 00:00:01.100\nR&amp;D &lt;b&gt; --&gt;\n"
    );
}

#[test]
fn lrc_has_a_line_for_each_cue_and_ends_it_before_a_silence() {
    let mut words =
        vec![word("Hello", 0, 400), word("[00:01.00]there.", 450, 1_200), word("Bye.", 6_000_019, 6_000_500)];
    let options = SubtitleOptions::default();
    let plain = "[00:00.00]Hello (00:01.00)there.\n[00:01.20]\n[100:00.01]Bye.\n[100:00.51]\n";
    assert_eq!(lrc(&words, &options), plain);
    words.pop();
    words.iter_mut().for_each(|word| word.speaker = Some("A".into()));
    let timed = SubtitleOptions { highlight_words: true, ..options };
    assert_eq!(lrc(&words, &timed), "[00:00.00]<00:00.00>A: Hello <00:00.45>(00:01.00)there.\n[00:01.20]\n");
    assert_eq!(lrc(&[], &timed), "");
}

#[test]
fn no_words_give_an_empty_srt_and_a_bare_vtt_header() {
    let options = SubtitleOptions::default();
    assert_eq!(srt(&[], &options), "");
    assert_eq!(vtt(&[], &options), "WEBVTT\n\n");
    let blank = [word(" \n", 0, 10)];
    assert_eq!(srt(&blank, &options), "");
}

#[test]
fn a_cue_ends_with_its_sentence() {
    let words = spoken("This is the first sentence. And this is the second one! Is it?");
    let expected = ["This is the first sentence.", "And this is the second one!", "Is it?"];
    assert_eq!(captions(&words), expected.map(|line| vec![line.to_owned()]));
}

#[test]
fn titles_initials_and_short_answers_end_no_cue() {
    let words = spoken("Yes. No. Ask Dr. J. Smith again.");
    assert_eq!(captions(&words), [["Yes. No. Ask Dr. J. Smith again."]]);
}

#[test]
fn a_pause_ends_a_cue_without_any_punctuation() {
    let words = [word("one", 0, 300), word("two", 1_300, 1_500), word("three", 2_501, 2_900)];
    assert_eq!(captions(&words), [["one two"], ["three"]]);
}

#[test]
fn two_lines_are_balanced_and_prefer_the_comma() {
    let words = spoken("ask not what your country can do for you ask what you can");
    assert_eq!(captions(&words), [["ask not what your country can", "do for you ask what you can"]]);
    let words = spoken("ask what your country can do, but also what you can do");
    assert_eq!(captions(&words), [["ask what your country can do,", "but also what you can do"]]);
}

#[test]
fn a_long_sentence_is_cut_into_cues_of_about_one_length() {
    let words = spoken(&["word"; 40].join(" "));
    let counts: Vec<usize> = captions(&words).iter().map(|lines| lines.join(" ").split(' ').count()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 40);
    assert!(counts.iter().all(|count| (12..=16).contains(count)), "{counts:?}");
}

#[test]
fn slow_speech_is_cut_by_time() {
    let words: Vec<Word> = (0..20).map(|i| word("slow", i * 1_500, i * 1_500 + 1_000)).collect();
    for cue in cues(&words, &SubtitleOptions::default()) {
        assert!(cue.end_ms - cue.start_ms <= 7_000, "{cue:?}");
        assert!(cue.lines[0].len() > 4, "a word alone: {cue:?}");
    }
}

#[test]
fn a_word_longer_than_a_line_is_kept_whole() {
    let long = "x".repeat(60);
    let words = [word("a", 0, 100), word(&long, 100, 900), word("b", 900, 1_000)];
    let text = captions(&words).concat();
    assert!(text.contains(&long), "{text:?}");
}

#[test]
fn overlapping_words_give_cues_that_do_not_overlap() {
    let words = [word("First.", 0, 5_000), word("Second.", 3_000, 6_000), word("Third.", 6_000, 6_000)];
    let cues = cues(&words, &SubtitleOptions::default());
    assert!(cues.windows(2).all(|pair| pair[0].end_ms <= pair[1].start_ms), "{cues:?}");
    assert!(cues.iter().all(|cue| cue.start_ms < cue.end_ms), "{cues:?}");
}

#[test]
fn chinese_is_joined_without_spaces() {
    let words = [word("你好", 0, 300), word("世界", 300, 600), word("Rust", 600, 900)];
    assert_eq!(captions(&words), [["你好世界 Rust"]]);
}

#[test]
fn a_day_of_short_words_takes_no_longer_than_it_should() {
    // Cutting looks back over the words of one cue only, whatever the length of the segment.
    let words: Vec<Word> = (0..400_000).map(|i| word("a", i * 60, i * 60 + 60)).collect();
    let started = std::time::Instant::now();
    let cues = cues(&words, &SubtitleOptions::default());
    assert!(cues.len() > 400_000 / 2 / 42, "{}", cues.len());
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// xorshift64*: enough for test cases, the same ones on each machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }
}

#[test]
fn random_words_all_appear_once_in_order_within_every_limit() {
    for seed in 1..=400 {
        let mut dice = Dice(seed);
        let options = SubtitleOptions { line_chars: 1 + dice.below(50) as usize, ..SubtitleOptions::default() };
        let mut now = dice.below(5_000);
        let words: Vec<Word> = (0..dice.below(120))
            .map(|index| {
                now += [0, 0, 50, 400, 1_500][dice.below(5) as usize];
                let start = now;
                now += [0, 80, 300, 900, 9_000][(dice.below(17) as usize).min(dice.below(5) as usize)];
                let mark = ["", "", "", "", ",", ".", "?", ".\""][dice.below(8) as usize];
                let letters = "é".repeat(dice.below(if seed % 9 == 0 { 60 } else { 9 }) as usize);
                // Some words reach into the next one.
                word(&format!("{index}{letters}{mark}"), start, now + dice.below(2) * 40)
            })
            .collect();
        check(&words, &options, seed);
    }
}

fn check(words: &[Word], options: &SubtitleOptions, seed: u64) {
    let cues = cues(words, options);
    let lines: Vec<&str> = cues.iter().flat_map(|cue| &cue.lines).map(String::as_str).collect();
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(lines.join(" "), texts.join(" "), "seed {seed}");
    for line in lines {
        let fits = line.chars().count() <= options.line_chars || !line.contains(' ');
        assert!(fits, "seed {seed}: {line:?} is over {} characters", options.line_chars);
    }
    for cue in &cues {
        assert!((1..=options.line_count).contains(&cue.lines.len()), "seed {seed}: {cue:?}");
        assert!(cue.start_ms < cue.end_ms, "seed {seed}: {cue:?}");
        assert!(cue.end_ms - cue.start_ms <= options.longest_cue_ms, "seed {seed}: {cue:?}");
    }
    for pair in cues.windows(2) {
        assert!(pair[0].end_ms <= pair[1].start_ms, "seed {seed}: {pair:?}");
    }
}

#[test]
fn cues_name_speakers_and_never_mix_them() {
    let spoken =
        |text: &str, at: u64, speaker: &str| Word { speaker: Some(speaker.into()), ..word(text, at, at + 200) };
    let words = [
        spoken("Who", 0, "A"),
        spoken("is", 200, "A"),
        spoken("it", 400, "A"),
        spoken("me", 600, "B"),
        spoken("again.", 800, "B"),
        spoken("and", 3000, "B"),
    ];
    let options = SubtitleOptions::default();
    assert_eq!(
        srt(&words, &options),
        "1\n00:00:00,000 --> 00:00:00,600\nA: Who is it\n\n2\n00:00:00,600 --> 00:00:01,100\nB: me again.\n\n\
         3\n00:00:03,000 --> 00:00:03,500\nand\n"
    );
    assert!(vtt(&words, &options).contains("\n<v A>Who is it\n") && vtt(&words, &options).contains("\n<v B>and\n"));
}

#[test]
fn a_name_is_no_markup() {
    let words = [Word { speaker: Some("Tom & <i>\nJerry --> x".into()), ..word("Hello.", 0, 400) }];
    let options = SubtitleOptions::default();
    assert_eq!(
        vtt(&words, &options),
        "WEBVTT\n\n00:00:00.000 --> 00:00:00.500\n<v Tom &amp; &lt;i&gt; Jerry --&gt; x>Hello.\n"
    );
}
