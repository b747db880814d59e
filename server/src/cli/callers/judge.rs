//! Counts of an agent's faults in a call, and its times.

use std::time::Duration;

use serde::Serialize;

/// Counts and times of calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// From the caller's last sound to the first sound of the reply, ms.
    pub voice_to_voice_ms: Vec<u32>,
    /// From the first sound of an interruption to the agent's silence, ms.
    pub barge_in_ms: Vec<u32>,
    pub calls: usize,
    /// Replies of which a sound was heard.
    pub replies: usize,
    /// Turns of the caller that got no reply.
    pub unanswered: usize,
    /// Replies that stopped though the caller was silent.
    pub self_interruptions: usize,
    /// Turns without a speaker: echo or noise that passed as the caller.
    pub phantom_turns: usize,
    pub backchannels: usize,
    /// Replies that a backchannel stopped.
    pub backchannel_stops: usize,
    /// Those backchannels.
    pub stopping_backchannels: Vec<String>,
    pub interruptions: usize,
    /// Interruptions that did not stop the agent.
    pub ignored_interruptions: usize,
    /// Those interruptions.
    pub ignored_lines: Vec<String>,
    pub pauses: usize,
    /// Replies that began in a pause of the caller's sentence.
    pub cut_turns: usize,
    /// Those sentences.
    pub cut_sentences: Vec<String>,
    /// Gaps of sound within replies of more than a frame's length.
    pub late_frames: usize,
    /// Frames of audio after the end of their reply.
    pub leaked_frames: usize,
    /// Errors that the agent sent, by their codes.
    pub errors: Vec<String>,
}

impl Report {
    /// Adds the report of another call.
    pub fn add(&mut self, other: Self) {
        self.voice_to_voice_ms.extend(other.voice_to_voice_ms);
        self.barge_in_ms.extend(other.barge_in_ms);
        self.calls += other.calls;
        self.replies += other.replies;
        self.unanswered += other.unanswered;
        self.self_interruptions += other.self_interruptions;
        self.phantom_turns += other.phantom_turns;
        self.backchannels += other.backchannels;
        self.backchannel_stops += other.backchannel_stops;
        self.stopping_backchannels.extend(other.stopping_backchannels);
        self.interruptions += other.interruptions;
        self.ignored_interruptions += other.ignored_interruptions;
        self.ignored_lines.extend(other.ignored_lines);
        self.pauses += other.pauses;
        self.cut_turns += other.cut_turns;
        self.cut_sentences.extend(other.cut_sentences);
        self.late_frames += other.late_frames;
        self.leaked_frames += other.leaked_frames;
        self.errors.extend(other.errors);
    }

    /// The caller's lines that the agent took wrongly, each with what it did.
    pub fn failed_lines(&self) -> Vec<String> {
        let stops = self.stopping_backchannels.iter().map(|line| format!("a backchannel stopped a reply: {line}"));
        let ignored = self.ignored_lines.iter().map(|line| format!("an interruption was ignored: {line}"));
        let cut = self.cut_sentences.iter().map(|line| format!("a reply began in a pause: {line}"));
        stops.chain(ignored).chain(cut).collect()
    }

    /// Rows of a table: what, of how many, how many or how long.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |what: &str, of: String, value: String| vec![what.to_owned(), of, value];
        let count = |what: &str, of: usize, count: usize| row(what, of.to_string(), count.to_string());
        let time = |what: &str, times: &[u32], share: f64| {
            row(what, times.len().to_string(), quantile(times, share).map_or("-".into(), |ms| format!("{ms} ms")))
        };
        vec![
            row("what", "of".into(), "value".into()),
            time("voice to voice, median", &self.voice_to_voice_ms, 0.5),
            time("voice to voice, p95", &self.voice_to_voice_ms, 0.95),
            time("barge-in to silence, median", &self.barge_in_ms, 0.5),
            time("barge-in to silence, longest", &self.barge_in_ms, 1.0),
            count("turns without a reply", self.voice_to_voice_ms.len() + self.unanswered, self.unanswered),
            count("turns cut in a pause", self.pauses, self.cut_turns),
            count("replies stopped by their echo", self.replies, self.self_interruptions),
            count("turns that nobody spoke", self.replies, self.phantom_turns),
            count("replies stopped by a backchannel", self.backchannels, self.backchannel_stops),
            count("interruptions ignored", self.interruptions, self.ignored_interruptions),
            count("late frames", self.replies, self.late_frames),
            count("frames after the reply's end", self.replies, self.leaked_frames),
        ]
    }
}

/// The value that this share of all values does not exceed.
fn quantile(times: &[u32], share: f64) -> Option<u32> {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len() as f64 * share).ceil() as usize;
    times.get(at.saturating_sub(1)).copied()
}

/// Milliseconds of a duration.
pub fn ms(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let times = [500, 100, 300, 200, 400];
        assert_eq!([0.5, 0.95, 1.0].map(|share| quantile(&times, share)), [Some(300), Some(500), Some(500)]);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
