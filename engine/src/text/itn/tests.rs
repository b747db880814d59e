use super::*;

fn words_of(text: &str) -> Vec<Word> {
    text.split(' ')
        .enumerate()
        .map(|(at, word)| Word {
            text: word.into(),
            start: at as u64 * 300,
            end: at as u64 * 300 + 250,
            confidence: 0.9 - at as f32 / 100.0,
            speaker: None,
            speaker_name: None,
            channel: None,
        })
        .collect()
}

fn text(spoken: &str, language: &str) -> String {
    format(words_of(spoken), Some(language)).1
}

#[test]
fn numbers_become_digits_and_the_rest_stays() {
    assert_eq!(text("we sold twenty three cars in nineteen ninety", "en"), "We sold 23 cars in 1990.");
    assert_eq!(text("in twenty twenty six we saw twenty, thirty or forty five", "en"), "In 2026 we saw 20, 30 or 45.");
    assert_eq!(text("it is three", "en_us"), "It is three.");
    assert_eq!(text("twenty three", "EN-us"), "23.");
    assert_eq!(text("the twenty first, of may", "en"), "The 21st, of may.");
    assert_eq!(text("es sind zweiundzwanzig", "de"), "Es sind 22.");
    assert_eq!(text("cuesta treinta y dos euros", "es"), "Cuesta 32 euros.");
    assert_eq!(text("twenty, three hundred", "en"), "20, 300.");
    assert_eq!(text("twenty three", "xx"), "Twenty three.");
}

#[test]
fn a_number_spans_its_words() {
    let (words, _) = format(words_of("about two hundred and five people"), Some("en"));
    assert_eq!(words.len(), 3);
    assert_eq!((words[1].text.as_str(), words[1].start, words[1].end), ("205", 300, 1450));
    assert!((words[1].confidence - 0.86).abs() < 1e-6);
}

#[test]
fn a_number_with_a_scale_or_a_unit_is_two_words() {
    let parts = |spoken: &str, language: &str| -> Vec<(String, u64, u64)> {
        let all = numbers(&words_of(spoken), language).into_iter();
        all.map(|word| (word.text, word.start, word.end)).collect()
    };
    let word = |text: &str, first: u64, last: u64| (text.to_owned(), first * 300, last * 300 + 250);
    assert_eq!(parts("five point six billion dollars", "en"), [word("$5.6", 0, 2), word("billion", 3, 4)]);
    assert_eq!(parts("at three thirty p m.", "en"), [word("at", 0, 0), word("3:30", 1, 2), word("pm.", 3, 4)]);
    assert_eq!(parts("eins Komma zwei Millionen", "de"), [word("1,2", 0, 2), word("Millionen", 3, 3)]);
    let delay = [("30".to_owned(), 0, 125), ("second".to_owned(), 125, 250), word("delay", 1, 1)];
    assert_eq!(parts("thirty-second delay", "en"), delay);
}

#[test]
fn numbers_stay_words_without_a_language() {
    assert_eq!(format(words_of("it was nineteen ninety"), None).1, "It was nineteen ninety.");
}

#[test]
fn two_speakers_or_channels_make_no_number_together() {
    let split = |mark: fn(&mut Word)| {
        let mut words = words_of("forty two point five million dollars");
        words[3..].iter_mut().for_each(mark);
        joined(&numbers(&words, "en"))
    };
    assert_eq!(split(|_| ()), "$42.5 million");
    assert_eq!(split(|word| word.speaker = Some("B".into())), "42 point $5 million");
    assert_eq!(split(|word| word.channel = Some(2)), "42 point $5 million");
    assert_eq!(split(|word| word.speaker_name = Some("Ada".into())), "$42.5 million", "a name is no other speaker");
}

#[test]
fn numbers_that_are_written_already_stay() {
    for (language, written) in [
        ("en", "in 1985 it cost $12,000 or 20% more"),
        ("en", "3 thousand five hundred"),
        ("fr", "il y en a 3 mille cinq cents"),
        ("de", "2 Millionen fünfhunderttausend"),
        ("es", "cuesta 32 euros"),
    ] {
        assert_eq!(joined(&numbers(&words_of(written), language)), written);
    }
}

#[test]
fn sentences_begin_and_end_once() {
    assert_eq!(text("Is it so?", "en"), "Is it so?");
    assert_eq!(text("well,", "en"), "Well.");
    assert_eq!(text("iPhone users", "en"), "iPhone users.");
    assert_eq!(text("McDonald went", "en"), "McDonald went.");
    assert_eq!(text("he said \"no.\"", "en"), "He said \"no.\"");
    assert_eq!(text("(so it is", "en"), "(so it is.");
    assert_eq!(format(Vec::new(), Some("en")).1, "");
}

#[test]
fn scripts_without_spaces_get_none() {
    assert_eq!(text("今 日 は 晴 れ", "ja"), "今日は晴れ");
    assert_eq!(text("我 用 GPU 。", "zh"), "我用GPU。");
}

/// The numbers of a line in writing.
fn written(spoken: &str) -> String {
    joined(&numbers(&words_of(spoken), "en"))
}

#[test]
fn english_numbers_are_written_as_people_write_them() {
    for (spoken, expected) in [
        ("twelve thousand dollars", "$12,000"),
        ("twenty five dollars and fifty cents", "$25.50"),
        ("five point six billion dollars", "$5.6 billion"),
        ("two million five hundred thousand", "2,500,000"),
        ("two million people", "2 million people"),
        ("three point five percent", "3.5%"),
        ("a hundred percent of it", "100% of it"),
        ("at nine forty on friday", "at 9:40 on friday"),
        ("three thirty p m", "3:30 pm"),
        ("ten thirty in the morning", "10:30 in the morning"),
        ("oh five hundred hours", "0500 hours"),
        ("nineteen oh five", "1905"),
        ("in thirteen forty eight", "in 1348"),
        ("the nineteen nineties", "the 1990s"),
        ("the eighteen hundreds", "the 1800s"),
        ("may twenty first twenty twenty four", "may 21st 2024"),
        ("forty second street", "42nd street"),
        ("the thirty second of december", "the 32nd of december"),
        ("a ninety second clip", "a 90 second clip"),
        ("zip code nine zero two one oh", "zip code 90210"),
        ("one eight hundred five five five one two one two", "18005551212"),
        ("double oh seven", "007"),
        ("version two point one point three", "version 2.1.3"),
        ("minus five degrees", "-5 degrees"),
        ("forty-five or twenty-first", "45 or 21st"),
        ("a hundred and one", "101"),
        ("fourteen fifteen years old", "14 15 years old"),
        ("ten thousandth", "10,000th"),
        ("children of fourteen fifteen", "children of 14 15"),
    ] {
        assert_eq!(written(spoken), expected);
    }
}

#[test]
fn numbers_with_several_readings_stay_words() {
    for spoken in [
        "hundreds of people",
        "a thousand times",
        "several hundred people",
        "half a million",
        "a million dollars",
        "one and a half million",
        "one twenty five",
        "nine ninety nine",
        "seven eleven",
        "twelve oh five",
        "thirty second mark",
        "the roaring twenties",
        "sixteen twenty",
        "twenty twenty vision",
        "fifty fifty",
        "twenty four seven",
        "one two three four",
        "two to three thousand",
        "eleven or twelve hundred",
        "a hundred or two hundred thousand",
        "half past ten",
        "one in ten",
        "nine out of ten",
        "you may second that",
        "oh two came",
        "twelve and a half",
        "one hundredth",
        "at two fifty a share",
        "after two twenty minute breaks",
        "minus minus",
    ] {
        assert_eq!(written(spoken), spoken);
    }
}

#[test]
fn a_scale_of_another_language_stays_a_word() {
    for (language, spoken, expected) in [
        ("de", "eins Komma zwei Millionen", "1,2 Millionen."),
        ("de", "Zwei Millionen Menschen", "2 Millionen Menschen."),
        ("de", "Tausend Menschen", "Tausend Menschen."),
        ("fr", "cinq virgule six milliards", "5,6 milliards."),
        ("es", "uno coma dos millones", "1,2 millones."),
        ("nl", "een komma twee miljoen", "1,2 miljoen."),
        ("es", "dos coma cinco mil millones", "2,5 mil millones."),
        ("it", "uno virgola due milioni", "1,2 milioni."),
        ("it", "tre virgola cinque miliardi di euro", "3,5 miliardi di euro."),
        ("it", "due milioni di persone", "2 milioni di persone."),
        ("it", "sono cinquemila", "Sono 5000."),
    ] {
        assert_eq!(text(spoken, language), expected);
    }
}

#[test]
fn a_long_run_of_number_words_ends() {
    for word in ["one hundred", "minus", "five", "double five", "oh", "a thousand"] {
        let spoken = vec![word; 50_000].join(" ");
        assert!(!written(&spoken).is_empty());
    }
    for (language, word) in
        [("de", "null komma eins"), ("de", "zwanzig"), ("fr", "cent mille"), ("it", "due"), ("es", "mil")]
    {
        let spoken = words_of(&vec![word; 20_000].join(" "));
        assert!(!numbers(&spoken, language).is_empty());
    }
}

#[test]
fn typographic_marks_stay_and_change_nothing() {
    assert_eq!(text("er sagte „nein.“", "de"), "Er sagte „nein.“");
    assert_eq!(
        text("they\u{2bc}re «twenty three» of \u{2bc}forty five\u{2bc}", "en"),
        "They\u{2bc}re «23» of \u{2bc}45\u{2bc}."
    );
    assert_eq!(text("they're \"twenty three\" of 'forty five'", "en"), "They're \"23\" of '45'.");
}
