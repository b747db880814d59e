//! `auricle devices`: lists the compute devices and marks those that `auto` takes.

use auricle_engine::{DeviceInfo, DeviceKind, devices};
use clap::Args;

use super::{Result, output};

#[derive(Args)]
#[command(after_long_help = "\
The device with the star is the one that --device auto takes: the first real GPU, else the CPU. The service takes all GPUs with a
star, other commands the first. A software rasteriser (llvmpipe, lavapipe) is used only when it is named, and is slower than the
CPU. The id is what --device takes; several with commas share the work.")]
pub struct DevicesArgs {
    /// Print JSON, one object a device
    #[arg(long)]
    json: bool,
}

pub fn run(args: &DevicesArgs) -> Result<()> {
    let devices = devices();
    if args.json {
        for device in &devices {
            output::print(&output::json(device)?)?;
        }
        return Ok(());
    }
    let auto = devices.iter().find(|device| device.is_gpu()).or(devices.first());
    let mut rows = vec![
        ["", "id", "kind", "api", "f16", "subgroup", "largest tensor", "name", "driver"].map(String::from).to_vec(),
    ];
    rows.extend(devices.iter().map(|device| row(device, auto.is_some_and(|auto| device.is_like(auto)))));
    output::print(&output::table(&rows))
}

fn row(device: &DeviceInfo, is_auto: bool) -> Vec<String> {
    let kind = match device.kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::Discrete => "discrete GPU",
        DeviceKind::Integrated => "integrated GPU",
        DeviceKind::Virtual => "virtual GPU",
        DeviceKind::Software => "software",
        DeviceKind::Other => "other",
    };
    let subgroup = match device.subgroups {
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least}-{most}"),
        None => "-".into(),
    };
    vec![
        if is_auto { "*" } else { "" }.into(),
        device.id.clone(),
        kind.into(),
        device.api.clone(),
        if device.f16 { "yes" } else { "no" }.into(),
        subgroup,
        device.max_tensor_bytes.map_or_else(|| "memory".into(), |bytes| format!("{} MiB", bytes >> 20)),
        device.name.clone(),
        device.driver.clone(),
    ]
}
