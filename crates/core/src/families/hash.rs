//! The one hash that families are shifted, dropped and renamed by: SplitMix64's finaliser, folded over some numbers.

/// Hashes some numbers.
pub fn hash(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |state, number| mix(state ^ number))
}

/// The same as a number from 0 up to, but for rounding not including, 1.
pub fn unit(numbers: &[u64]) -> f64 {
    hash(numbers) as f64 / (1u128 << 64) as f64
}

const fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_splitmix64_whatever_the_machine() {
        // The first outputs of SplitMix64 from the states 0 and 1.
        assert_eq!(hash(&[0]), 0xE220_A839_7B1D_CDAF);
        assert_eq!(hash(&[1]), 0x910A_2DEC_8902_5CC1);
        assert_eq!(hash(&[1, 2]), mix(hash(&[1]) ^ 2));
        assert!((0.0..=1.0).contains(&unit(&[7, 9])));
    }
}
