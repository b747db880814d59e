//! Devices and their drivers, ffmpeg.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use auricle_engine::audio::ffmpeg_program;
use auricle_engine::blocking::Engine;
use auricle_engine::{DeviceChoice, DeviceInfo, EngineOptions};

use super::Finding;
use crate::config::Config;

const DEVICE: &str = "device";
/// Works on every machine.
const ANY_DEVICE: &str = "auricle serve --device auto";

/// A maker of graphics cards.
struct Maker {
    /// As PCI has it.
    id: &'static str,
    name: &'static str,
    driver: &'static str,
}

const MAKERS: [Maker; 3] = [
    Maker { id: "0x10de", name: "NVIDIA", driver: "sudo apt-get install nvidia-driver nvidia-vulkan-icd libvulkan1" },
    Maker { id: "0x1002", name: "AMD", driver: "sudo apt-get install mesa-vulkan-drivers libvulkan1" },
    Maker { id: "0x8086", name: "Intel", driver: "sudo apt-get install mesa-vulkan-drivers libvulkan1" },
];

pub fn devices(config: &Config) -> Vec<Finding> {
    let devices = auricle_engine::devices();
    let mut findings = vec![used(config, &devices)];
    if !devices.iter().any(DeviceInfo::is_gpu) {
        findings.extend(undriven(Path::new("/sys/class/drm"), Path::new("/dev/dri")));
    }
    findings
}

/// The devices of the settings, opened as the service opens them.
fn used(config: &Config, devices: &[DeviceInfo]) -> Finding {
    let choices = match DeviceChoice::list(&config.device) {
        Ok(choices) => choices,
        Err(error) => return Finding::broken(DEVICE, error.to_string(), ANY_DEVICE),
    };
    match Engine::open(EngineOptions::default().models(config.models.clone()).devices(choices)) {
        Ok(engine) => {
            let names = engine.device_names();
            let driver = devices.iter().find(|device| device.is_gpu() && names.contains(&device.name));
            let driver = driver.map(|device| format!(", driver {}", device.driver)).unwrap_or_default();
            let warnings: String = engine.warnings().iter().map(|warning| format!("; {warning}")).collect();
            Finding::ok(DEVICE, format!("{} takes {names}{driver}{warnings}", config.device))
        }
        // The models have a finding of their own.
        Err(auricle_engine::Error::Checkpoint { .. }) => Finding::ok(DEVICE, format!("{} is there", config.device)),
        Err(error) => Finding::broken(DEVICE, error.to_string(), ANY_DEVICE),
    }
}

/// A graphics card that Vulkan does not reach, and why.
fn undriven(cards: &Path, nodes: &Path) -> Option<Finding> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let vendor = |card: std::path::PathBuf| fs::read_to_string(card.join("device/vendor")).ok();
    let vendors: Vec<String> = entries(cards).filter_map(vendor).map(|vendor| vendor.trim().to_owned()).collect();
    let maker = MAKERS.iter().find(|maker| vendors.iter().any(|vendor| vendor == maker.id))?;
    let is_render_node =
        |node: &std::path::PathBuf| node.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD"));
    let closed = entries(nodes).filter(is_render_node).find(|node| {
        let opened = fs::File::options().read(true).write(true).open(node);
        opened.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    });
    Some(match closed {
        Some(node) => Finding::warning(
            DEVICE,
            format!(
                "a card of {} is there, and this user may not open {}: the CPU computes",
                maker.name,
                node.display()
            ),
            "sudo usermod -aG render,video \"$USER\"",
        ),
        None => Finding::warning(
            DEVICE,
            format!("a card of {} is there without a Vulkan driver: the CPU computes", maker.name),
            maker.driver,
        ),
    })
}

pub fn ffmpeg() -> Vec<Finding> {
    let subject = "ffmpeg";
    let install = match cfg!(target_os = "macos") {
        true => "brew install ffmpeg",
        false => "sudo apt-get install ffmpeg",
    };
    let named = std::env::var_os("AURICLE_FFMPEG");
    let Some(program) = ffmpeg_program() else {
        return vec![match named {
            Some(named) => {
                let named = named.to_string_lossy().into_owned();
                Finding::broken(
                    subject,
                    format!("AURICLE_FFMPEG names {named}, which is not there"),
                    "unset AURICLE_FFMPEG",
                )
            }
            None => {
                let without = "not found: formats such as WMA, AC-3 and AMR cannot be read, nor MP3 and AAC be written";
                Finding::warning(subject, without, install)
            }
        }];
    };
    let asked = Command::new(&program).arg("-version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let place = program.display();
    vec![match asked {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let version = text.split_whitespace().nth(2).unwrap_or("unknown");
            Finding::ok(subject, format!("{place}, version {version}"))
        }
        Ok(output) => Finding::broken(subject, format!("{place} does not work: {}", output.status), install),
        Err(error) => Finding::broken(subject, format!("{place} cannot be started: {error}"), install),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_without_a_driver_is_found_by_its_maker() {
        let folder = tempfile::tempdir().unwrap();
        let card = folder.path().join("card0/device");
        fs::create_dir_all(&card).unwrap();
        let nodes = folder.path().join("none");
        fs::write(card.join("vendor"), "0x1af4\n").unwrap();
        assert!(undriven(folder.path(), &nodes).is_none(), "a virtual card");
        fs::write(card.join("vendor"), "0x10de\n").unwrap();
        let finding = undriven(folder.path(), &nodes).unwrap();
        assert!(finding.message.contains("NVIDIA") && finding.mend.unwrap().contains("nvidia-driver"));
        assert!(undriven(&nodes, &nodes).is_none());
    }
}
