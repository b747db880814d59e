//! Filters of second order.

/// A filter of second order.
pub(super) struct Biquad {
    b: [f64; 3],
    a: [f64; 2],
    state: [f64; 2],
}

impl Biquad {
    /// The filter with these coefficients of its inputs and its outputs, the newest first.
    pub fn new(b: [f64; 3], a: [f64; 3]) -> Self {
        Self { b: b.map(|value| value / a[0]), a: [a[1] / a[0], a[2] / a[0]], state: [0.0; 2] }
    }

    /// A high pass with this corner in hertz at a sample rate.
    pub fn high_pass(corner: f64, quality: f64, rate: f64) -> Self {
        let k = (std::f64::consts::PI * corner / rate).tan();
        let scale = 1.0 + k / quality + k * k;
        Self::new([1.0, -2.0, 1.0], [scale, 2.0 * (k * k - 1.0), 1.0 - k / quality + k * k])
    }

    /// The next output.
    pub fn next(&mut self, x: f64) -> f64 {
        let y = self.b[0] * x + self.state[0];
        self.state[0] = self.b[1] * x - self.a[0] * y + self.state[1];
        self.state[1] = self.b[2] * x - self.a[1] * y;
        y
    }
}
