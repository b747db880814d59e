//! The checkpoints behind the models, and what they lack.

use auricle_engine::Catalog;

use super::Finding;
use crate::checkpoints::{self, ListedModel, ModelState};
use crate::cli::models::{check_checkpoint, present};
use crate::config::Config;

const MODELS: &str = "models";

pub fn check(config: &Config) -> Vec<Finding> {
    let folder = config.models.display();
    let prepared = crate::starter_models::prepare(&config.models);
    if let Err(reason) = prepared {
        return vec![Finding::broken(MODELS, reason, format!("sudo chown -R \"$USER\" {folder}"))];
    }
    let listed = Catalog::read(&config.models).and_then(|catalog| checkpoints::list(&catalog));
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => {
            return vec![Finding::broken(MODELS, error.to_string(), "unset AURICLE_MODELS; auricle models list")];
        }
    };
    let served = listed.iter().filter(|model| model.state != ModelState::Missing).count();
    let starters = listed.iter().filter(|model| model.state == ModelState::Starter).count();
    let mut findings = vec![Finding::ok(MODELS, format!("{served} in {folder}, {starters} of them starters"))];
    findings.extend(listed.iter().filter(|model| model.state == ModelState::Missing).map(missing));
    for place in present(&config.models).unwrap_or_default() {
        if let Err(error) = check_checkpoint(&place) {
            let of_place = |model: &&ListedModel| model.path == place;
            let mend = match listed.iter().find(of_place) {
                Some(model) if model.state == ModelState::Published => {
                    format!("auricle models pull {} --force", model.published.as_ref().unwrap_or(&model.id))
                }
                // The program writes its starters again where one is gone.
                _ => format!("rm -r {}; auricle models check", place.display()),
            };
            findings.push(Finding::broken(MODELS, format!("{}: {error}", place.display()), mend));
        }
    }
    findings
}

fn missing(model: &ListedModel) -> Finding {
    let ListedModel { id, kind, offers, .. } = model;
    let mend = if offers.is_empty() { "auricle models check".into() } else { format!("auricle models pull {id}") };
    Finding::warning(MODELS, format!("{id} ({kind}) has no checkpoint"), mend)
}
