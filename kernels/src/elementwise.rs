//! Functions of one value on a GPU.

use cubecl::prelude::*;

#[cube]
pub(crate) fn sigmoid(x: f32) -> f32 {
    f32::new(1.0) / (f32::new(1.0) + (f32::new(0.0) - x).exp())
}

/// Computed from the sigmoid, which does not overflow.
#[cube]
pub(crate) fn tanh(x: f32) -> f32 {
    f32::new(2.0) * sigmoid(f32::new(2.0) * x) - f32::new(1.0)
}

/// `sin x` within 4e-7 for arguments up to 1,000, on every device: the language of shaders promises no more than 5e-4.
#[cube]
pub(crate) fn sine(x: f32) -> f32 {
    let n = (x * f32::new(core::f32::consts::FRAC_1_PI) + f32::new(0.5)).floor();
    // Pi in two parts: the multiples of the first are exact.
    let r = x - n * f32::new(3.140625);
    let r = r - n * f32::new(9.676536e-4);
    let s = r * r;
    let p = f32::new(-2.5052108e-8) * s + f32::new(2.7557319e-6);
    let p = p * s - f32::new(1.984127e-4);
    let p = p * s + f32::new(8.333333e-3);
    let p = p * s - f32::new(1.6666667e-1);
    let value = p * s * r + r;
    // Every second half turn is below 0.
    let odd = n - f32::new(2.0) * (n * f32::new(0.5)).floor();
    value * (f32::new(1.0) - f32::new(2.0) * odd)
}

/// The angle of a point, as `atan2` gives it, within 4e-7: the language of shaders promises no more than 4,096 units in the last place.
#[cube]
pub(crate) fn angle(y: f32, x: f32) -> f32 {
    let (across, along) = (y.abs(), x.abs());
    let high = max(across, along);
    let mut ratio = f32::new(0.0);
    if high > f32::new(0.0) {
        ratio = min(across, along) / high;
    }
    // A polynomial is near up to a sixteenth of a turn; what is beyond lies as far around an eighth.
    let mut around = f32::new(0.0);
    if ratio > f32::new(0.41421356) {
        around = f32::new(core::f32::consts::FRAC_PI_4);
        ratio = (ratio - f32::new(1.0)) / (ratio + f32::new(1.0));
    }
    let s = ratio * ratio;
    let p = f32::new(0.07902595) * s - f32::new(0.13824452);
    let p = p * s + f32::new(0.19971879);
    let p = p * s - f32::new(0.33332756);
    let mut result = around + (p * s * ratio + ratio);
    if across > along {
        result = f32::new(core::f32::consts::FRAC_PI_2) - result;
    }
    if x < f32::new(0.0) {
        result = f32::new(core::f32::consts::PI) - result;
    }
    if y < f32::new(0.0) {
        result = f32::new(0.0) - result;
    }
    result
}
