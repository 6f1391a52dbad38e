//! Figures of another program that are set beside ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use slackwater_benches::Failed;
use slackwater_benches::paired::Quartiles;

/// Figures by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beside(BTreeMap<String, Vec<f64>>);

impl Beside {
    /// Reads lines as `figures` prints them; other lines are passed over.
    pub(crate) fn read(path: &Path) -> Result<Self, Failed> {
        let text = fs::read_to_string(path)
            .map_err(|error| format!("cannot read the figures in {}: {error}", path.display()))?;
        Ok(Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut figures = BTreeMap::<_, Vec<f64>>::new();
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let field = |name: &str| line.get(name);
            if let (Some(name), Some(value)) =
                (field("name").and_then(Value::as_str), field("value").and_then(Value::as_f64))
                && field("sys").and_then(Value::as_str) != Some("slackwater")
            {
                figures.entry(name.to_owned()).or_default().push(value);
            }
        }
        Self(figures)
    }

    /// The median of a figure; none if it is not there.
    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|values| Quartiles::of(values.clone()).median)
    }
}
