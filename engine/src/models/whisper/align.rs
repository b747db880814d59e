//! Token times: attention over the audio, aligned monotonically in time.

/// Filters each row of `width` values by the median of `filter` neighbours, an odd number; rows are mirrored at their
/// ends.
pub fn median_filter(values: &[f32], width: usize, filter: usize) -> Vec<f32> {
    let reach = filter / 2;
    if width <= reach {
        return values.to_vec();
    }
    let mut out = Vec::with_capacity(values.len());
    let mut window = vec![0.0; filter];
    for row in values.chunks_exact(width) {
        for at in 0..width as isize {
            for (offset, value) in window.iter_mut().enumerate() {
                let from = (at + offset as isize - reach as isize).abs();
                let mirrored = if from >= width as isize { 2 * (width as isize - 1) - from } else { from };
                *value = row[mirrored as usize];
            }
            window.sort_unstable_by(f32::total_cmp);
            out.push(window[reach]);
        }
    }
    out
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
    for column in 1..=columns {
        for row in 1..=rows {
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
        let at = |row: usize, frame: usize| weights[(row * heads + head) * frames + frame];
        let mut normal = vec![0f32; rows * frames];
        for frame in 0..frames {
            let middle = (0..rows).map(|row| at(row, frame)).sum::<f32>() / rows as f32;
            let variance = (0..rows).map(|row| (at(row, frame) - middle).powi(2)).sum::<f32>() / rows as f32;
            let deviation = variance.sqrt();
            if deviation > 0.0 {
                (0..rows).for_each(|row| normal[row * frames + frame] = (at(row, frame) - middle) / deviation);
            }
        }
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
