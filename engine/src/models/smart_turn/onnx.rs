//! The published form: an ONNX file, in 32 bits or quantised to 8. Most matrices have no name there; what follows them tells theirs.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;

use super::config::Config;
use crate::error::{Error, Result};
use crate::layers::transpose;
use crate::models::whisper::EncoderConfig;
use crate::weights::Weights;
use crate::weights::onnx::{Floats, Graph, Node};

/// Width of a head in every size of Whisper; the file does not tell it.
const HEAD: usize = 64;

/// Reads the network's sizes, and its tensors by the names and in the layout of the module that was exported.
///
/// # Errors
/// [`Error::Checkpoint`] and [`Error::Weights`], which name the file or tensor at fault.
pub fn read(path: &Path, device: &Device) -> Result<(Config, Weights)> {
    let graph = Graph::open(path)?;
    let mut tensors = named(&graph)?;
    for (name, tensor) in matrices(&graph)? {
        tensors.entry(name).or_insert(tensor);
    }
    let bad = |reason: String| Error::Checkpoint { path: path.to_path_buf(), reason };
    let config = config(&tensors).map_err(bad)?;
    Ok((config, Weights::of_values(path, tensors, device)))
}

/// The module's name of a tensor; none for another constant.
fn published(name: &str) -> Option<&str> {
    let name = name.strip_prefix("inner.").unwrap_or(name);
    let of_module = ["encoder.", "pool_attention.", "classifier."].iter().any(|part| name.starts_with(part));
    (of_module && (name.ends_with(".weight") || name.ends_with(".bias"))).then_some(name)
}

/// The tensors that have the names of the module's.
fn named(graph: &Graph) -> Result<BTreeMap<String, Floats>> {
    let made = graph.nodes().iter().flat_map(|node| node.outputs.iter().map(String::as_str));
    let mut tensors = BTreeMap::new();
    for value in graph.constants().chain(made) {
        if let Some(name) = graph.constant_name(value).and_then(published)
            && let Some(tensor) = graph.floats(value)?
        {
            tensors.insert(name.to_owned(), tensor);
        }
    }
    Ok(tensors)
}

/// The matrices of products, by the bias that is added to the product; that of the keys, which has none, by that of the queries of the
/// same frames. They lie as `[inputs, outputs]`.
fn matrices(graph: &Graph) -> Result<Vec<(String, Floats)>> {
    let products: Vec<[&str; 3]> = graph.nodes().iter().filter_map(product).collect();
    let added = |product: &str| {
        let sums = graph.nodes().iter().filter(|node| node.operator == "Add" && node.inputs.len() == 2);
        let other = |node: &'_ Node| -> Option<String> {
            let at = node.inputs.iter().position(|input| graph.origin(input) == product)?;
            let bias = published(graph.constant_name(node.inputs.get(1 - at)?)?)?;
            Some(format!("{}.weight", bias.strip_suffix(".bias")?))
        };
        sums.into_iter().find_map(other)
    };
    let mut queries = BTreeMap::new();
    let mut unnamed = Vec::new();
    let mut found = Vec::new();
    for [input, matrix, output] in products {
        let Some((shape, values)) = graph.floats(matrix)? else { continue };
        let &[inputs, outputs] = &shape[..] else { continue };
        let tensor = (vec![outputs, inputs], transpose(&values, inputs, outputs));
        let input = graph.origin(input);
        match added(output) {
            Some(name) => {
                if let Some(attention) = name.strip_suffix("q_proj.weight") {
                    queries.insert(input, attention.to_owned());
                }
                found.push((name, tensor));
            }
            None => unnamed.push((input, tensor)),
        }
    }
    let keys = unnamed.into_iter().filter_map(|(input, tensor)| {
        let attention = queries.get(input)?;
        Some((format!("{attention}k_proj.weight"), tensor))
    });
    found.extend(keys);
    Ok(found)
}

/// Names of a product's input, matrix and output.
fn product(node: &Node) -> Option<[&str; 3]> {
    match (node.operator.as_str(), &node.inputs[..], &node.outputs[..]) {
        ("MatMul", [input, matrix], [output]) => Some([input, matrix, output]),
        _ => None,
    }
}

/// The sizes that the shapes tell.
fn config(tensors: &BTreeMap<String, Floats>) -> std::result::Result<Config, String> {
    let shape = |name: &str| {
        let missing = || format!("it is no Smart Turn network: it has no tensor {name}");
        tensors.get(name).map(|(shape, _)| &shape[..]).ok_or_else(missing)
    };
    let (&[frames, size], &[_, mels, _], &[inner, _]) = (
        shape("encoder.embed_positions.weight")?,
        shape("encoder.conv1.weight")?,
        shape("encoder.layers.0.fc1.weight")?,
    ) else {
        return Err("it is no Smart Turn network: its tensors have other shapes".into());
    };
    let layers = (0..).take_while(|layer| tensors.contains_key(&format!("encoder.layers.{layer}.fc1.weight"))).count();
    if !size.is_multiple_of(HEAD) {
        return Err(format!("a width of {size} is not one of heads of {HEAD}"));
    }
    Config::checked(EncoderConfig { size, layers, heads: size / HEAD, inner, mels, frames })
}
