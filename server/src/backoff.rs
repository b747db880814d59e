//! Delays between retries.

use crate::ids::random;

/// `seconds` in ms, varied by up to a tenth in both directions, so that requests that failed together are not retried
/// together.
pub fn jittered_ms(seconds: u32) -> i64 {
    let ms = i64::from(seconds) * 1000;
    let [byte] = random::<1>();
    ms - ms / 10 + ms * i64::from(byte) / 1275
}

#[cfg(test)]
mod tests {
    use super::jittered_ms;

    #[test]
    fn delays_vary_by_a_tenth() {
        for _ in 0..200 {
            assert!((9_000..=11_000).contains(&jittered_ms(10)));
        }
        assert_eq!(jittered_ms(0), 0);
    }
}
