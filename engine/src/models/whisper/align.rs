//! Token times: attention over the audio, aligned monotonically in time.

/// Values that are filtered side by side.
const LANES: usize = 16;

/// Filters each row of `width` values by the median of `filter` neighbours, an odd number; rows are mirrored at their
/// ends.
pub fn median_filter(values: &[f32], width: usize, filter: usize) -> Vec<f32> {
    let reach = filter / 2;
    if width <= reach {
        return values.to_vec();
    }
    let mut out = Vec::with_capacity(values.len());
    let mut mirrored = vec![0f32; width.next_multiple_of(LANES) + 2 * reach];
    let mut window = vec![[0f32; LANES]; filter];
    for row in values.chunks_exact(width) {
        mirrored[reach..reach + width].copy_from_slice(row);
        for step in 1..=reach {
            mirrored[reach - step] = row[step];
            mirrored[reach + width - 1 + step] = row[width - 1 - step];
        }
        for first in (0..width).step_by(LANES) {
            for (offset, lanes) in window.iter_mut().enumerate() {
                lanes.copy_from_slice(&mirrored[first + offset..first + offset + LANES]);
            }
            sort_lanes(&mut window, reach);
            out.extend_from_slice(&window[reach][..LANES.min(width - first)]);
        }
    }
    out
}

/// Sorts each lane of the window up to the place `last`, all lanes in step.
fn sort_lanes(window: &mut [[f32; LANES]], last: usize) {
    for place in 0..=last {
        let (least, others) = window[place..].split_at_mut(1);
        for other in others {
            for (least, other) in least[0].iter_mut().zip(other) {
                let (a, b) = (*least, *other);
                (*least, *other) = if b < a { (b, a) } else { (a, b) };
            }
        }
    }
}

/// Dynamic time warping over `costs` `[rows, columns]`: the cheapest monotonic path from the first row and column to
/// the last, as pairs of row and column.
pub fn warp(costs: &[f64], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    #[derive(Clone, Copy, PartialEq)]
    enum From {
        Both,
        Row,
        Column,
    }
    let width = columns + 1;
    let mut cost = vec![f32::INFINITY; (rows + 1) * width];
    let mut trace = vec![From::Column; (rows + 1) * width];
    cost[0] = 0.0;
    for row in 1..=rows {
        for column in 1..=columns {
            let at = row * width + column;
            let (both, above, before) = (cost[at - width - 1], cost[at - width], cost[at - 1]);
            let (least, from) = if both < above && both < before {
                (both, From::Both)
            } else if above < both && above < before {
                (above, From::Row)
            } else {
                (before, From::Column)
            };
            cost[at] = (costs[(row - 1) * columns + column - 1] + f64::from(least)) as f32;
            trace[at] = from;
        }
    }
    let (mut row, mut column) = (rows, columns);
    let mut path = Vec::new();
    while row > 0 && column > 0 {
        path.push((row - 1, column - 1));
        match trace[row * width + column] {
            From::Both => (row, column) = (row - 1, column - 1),
            From::Row => row -= 1,
            From::Column => column -= 1,
        }
    }
    path.reverse();
    path
}

/// The frame at which each of `rows` begins, from the attention `weights` `[rows, heads, frames]` of the alignment
/// heads.
pub fn token_times(weights: &[f32], rows: usize, heads: usize, frames: usize, filter: usize) -> Vec<usize> {
    let mut mean = vec![0f64; rows * frames];
    for head in 0..heads {
        let normal = normalized(|row| &weights[(row * heads + head) * frames..][..frames], rows, frames);
        let smooth = median_filter(&normal, frames, filter);
        mean.iter_mut().zip(smooth).for_each(|(sum, value)| *sum += f64::from(value) / heads as f64);
    }
    let costs: Vec<f64> = mean.into_iter().map(|attention| -attention).collect();
    let mut times = vec![0; rows];
    let mut next = 0;
    for (row, frame) in warp(&costs, rows, frames) {
        if row == next {
            times[row] = frame;
            next += 1;
        }
    }
    times
}

/// Rows of attention weights, each frame with a mean of 0 and a deviation of 1 over the rows.
fn normalized<'a>(row: impl Fn(usize) -> &'a [f32], rows: usize, frames: usize) -> Vec<f32> {
    let (mut means, mut deviations) = (vec![0f32; frames], vec![0f32; frames]);
    for row in (0..rows).map(&row) {
        means.iter_mut().zip(row).for_each(|(mean, weight)| *mean += weight);
    }
    means.iter_mut().for_each(|mean| *mean /= rows as f32);
    for row in (0..rows).map(&row) {
        let centred = row.iter().zip(&means).map(|(weight, mean)| weight - mean);
        deviations.iter_mut().zip(centred).for_each(|(sum, centred)| *sum += centred * centred);
    }
    deviations.iter_mut().for_each(|sum| *sum = (*sum / rows as f32).sqrt());
    let mut normal = Vec::with_capacity(rows * frames);
    for row in (0..rows).map(&row) {
        let frames = row.iter().zip(means.iter().zip(&deviations));
        normal.extend(frames.map(
            |(weight, (mean, deviation))| {
                if *deviation > 0.0 { (weight - mean) / deviation } else { 0.0 }
            },
        ));
    }
    normal
}
