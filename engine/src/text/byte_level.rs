//! The characters that byte-level tokenizers write bytes as.

use std::collections::HashMap;

/// The character of each byte: itself where it is printed, else one from U+0100 on.
pub fn chars_of_bytes() -> Vec<char> {
    let mut other = 0x100;
    (0..=255u32)
        .filter_map(|byte| {
            let itself = matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
            let stands = if itself { byte } else { other };
            other += u32::from(!itself);
            char::from_u32(stands)
        })
        .collect()
}

/// The byte of each of these characters.
pub fn bytes_of_chars() -> HashMap<char, u8> {
    chars_of_bytes().into_iter().zip(0..=u8::MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character() {
        let chars = chars_of_bytes();
        assert_eq!(chars.len(), 256);
        assert_eq!((chars[b' ' as usize], chars[b'\n' as usize], chars[b'A' as usize]), ('Ġ', 'Ċ', 'A'));
        assert_eq!(bytes_of_chars()[&'Ġ'], b' ');
    }
}
