//! The file of a sweep.

use serde::Deserialize;
use serde_json::Value;

/// A sweep, checked.
pub struct Spec {
    command: Vec<String>,
    /// Names and values, in the file's order; the last one changes fastest.
    pub over: Vec<(String, Vec<String>)>,
    /// Names, and where they are in the command's JSON: members and indices with dots between.
    pub columns: Vec<(String, String)>,
    pub plot: Option<Plot>,
}

/// A drawing: `y` over `x`, a line per value of `series`, a panel per value of `panel`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    pub x: String,
    pub y: String,
    pub series: Option<String>,
    pub panel: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    command: Vec<String>,
    over: toml::Table,
    columns: toml::Table,
    plot: Option<Plot>,
}

/// One combination.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub values: Vec<String>,
    pub arguments: Vec<String>,
}

impl Spec {
    /// Reads a sweep; `name` is what messages call it. The error says line and reason.
    pub fn parse(name: &str, text: &str) -> Result<Spec, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("{name}:{line}: {}", error.message())
        })?;
        let mut spec =
            Spec { command: file.command, over: Vec::new(), columns: Vec::new(), plot: file.plot };
        for (key, value) in &file.over {
            let list = value
                .as_array()
                .ok_or_else(|| format!("{name}: over.{key} is no list of values"))?;
            let values: Option<Vec<String>> = list.iter().map(scalar).collect();
            match values {
                Some(values) if !values.is_empty() => spec.over.push((key.clone(), values)),
                _ => {
                    return Err(format!(
                        "{name}: over.{key} takes numbers and strings, one at least"
                    ));
                }
            }
        }
        for (key, value) in &file.columns {
            let path = value
                .as_str()
                .ok_or_else(|| format!("{name}: columns.{key} is no path into JSON"))?;
            spec.columns.push((key.clone(), path.to_string()));
        }
        spec.check(name)?;
        Ok(spec)
    }

    fn check(&self, name: &str) -> Result<(), String> {
        if self.command.is_empty() || self.columns.is_empty() {
            return Err(format!("{name}: a sweep has a command and columns"));
        }
        if self.combinations() > 100_000 {
            return Err(format!(
                "{name}: {} combinations; 100000 are the limit",
                self.combinations()
            ));
        }
        for word in &self.command {
            let mut rest = word.as_str();
            while let Some((_, tail)) = rest.split_once('{') {
                let (key, after) = tail
                    .split_once('}')
                    .ok_or_else(|| format!("{name}: `{word}` lacks a closing brace"))?;
                if !self.over.iter().any(|(known, _)| known == key) {
                    return Err(format!(
                        "{name}: `{word}` names `{key}`, which [over] does not have"
                    ));
                }
                rest = after;
            }
        }
        let Some(plot) = &self.plot else { return Ok(()) };
        for (what, key) in
            [("x", Some(&plot.x)), ("series", plot.series.as_ref()), ("panel", plot.panel.as_ref())]
        {
            if let Some(key) = key.filter(|key| self.parameter(key).is_none()) {
                return Err(format!("{name}: plot.{what} is `{key}`, which [over] does not have"));
            }
        }
        let drawn = [Some(&plot.x), plot.series.as_ref(), plot.panel.as_ref()];
        if let Some((key, _)) =
            self.over.iter().find(|(key, values)| values.len() > 1 && !drawn.contains(&Some(key)))
        {
            return Err(format!(
                "{name}: `{key}` has several values too: [plot] needs it as series or panel"
            ));
        }
        match self.columns.iter().any(|(key, _)| *key == plot.y) {
            true => Ok(()),
            false => Err(format!("{name}: plot.y is `{}`, which [columns] does not have", plot.y)),
        }
    }

    fn combinations(&self) -> usize {
        self.over.iter().fold(1, |product: usize, (_, values)| product.saturating_mul(values.len()))
    }

    /// Where a parameter is in a row.
    pub fn parameter(&self, name: &str) -> Option<usize> {
        self.over.iter().position(|(key, _)| key == name)
    }

    /// All combinations.
    pub fn jobs(&self) -> Vec<Job> {
        (0..self.combinations())
            .map(|number| {
                let mut rest = number;
                let mut values: Vec<String> = Vec::new();
                for (_, list) in self.over.iter().rev() {
                    values.push(list[rest % list.len()].clone());
                    rest /= list.len();
                }
                values.reverse();
                let fill = |word: &String| {
                    let pairs = self.over.iter().zip(&values);
                    pairs.fold(word.clone(), |word, ((key, _), value)| {
                        word.replace(&format!("{{{key}}}"), value)
                    })
                };
                let mut arguments: Vec<String> = self.command.iter().map(fill).collect();
                if !arguments.iter().any(|argument| argument == "--json") {
                    arguments.push("--json".to_string());
                }
                Job { values, arguments }
            })
            .collect()
    }
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The value at a path of members and indices.
pub fn find<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(json, |value, step| match value {
        Value::Array(list) => list.get(step.parse::<usize>().ok()?),
        _ => value.get(step),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEEP: &str = "command = ['sim', 'examples/{p}', '--rate', '{r}']\n[over]\np = ['a', 'b']\nr = [1, '2G']\n\
        [columns]\ngbps = 'x.1.y'\n";

    #[test]
    fn the_last_parameter_changes_fastest() {
        let jobs = Spec::parse("s", SWEEP).unwrap().jobs();
        let values: Vec<String> = jobs.iter().map(|job| job.values.join(" ")).collect();
        assert_eq!(values, ["a 1", "a 2G", "b 1", "b 2G"]);
        assert_eq!(jobs[3].arguments, ["sim", "examples/b", "--rate", "2G", "--json"]);
    }

    #[test]
    fn paths_go_through_members_and_indices() {
        let json = serde_json::json!({ "x": [1, { "y": 7 }] });
        assert_eq!(find(&json, "x.1.y"), Some(&Value::from(7)));
        assert_eq!(find(&json, "x.2.y"), None);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |from: &str, to: &str| {
            Spec::parse("s", &SWEEP.replace(from, to)).err().unwrap_or_default()
        };
        assert!(error("{p}", "{q}").contains("names `q`, which [over] does not have"));
        assert!(error("{p}", "{p").contains("lacks a closing brace"));
        assert!(error("[1, '2G']", "[]").contains("over.r takes numbers and strings"));
        assert!(error("[1, '2G']", "3").contains("over.r is no list"));
        assert!(error("command", "comand").starts_with("s:1: "));
        let plot = |plot: &str| {
            Spec::parse("s", &format!("{SWEEP}[plot]\n{plot}")).err().unwrap_or_default()
        };
        assert!(plot("x = 'r'\ny = 'mpps'\nseries = 'p'").contains("plot.y is `mpps`"));
        assert!(plot("x = 'z'\ny = 'gbps'").contains("plot.x is `z`"));
        assert!(plot("x = 'r'\ny = 'gbps'").contains("`p` has several values too"));
        assert_eq!(plot("x = 'r'\ny = 'gbps'\nseries = 'p'"), "");
    }

    /// Bytes of a sweep changed, doubled and left out at random: refused or read, and what is read
    /// has jobs.
    #[test]
    fn damaged_files_do_no_harm() {
        let whole = format!("{SWEEP}[plot]\nx = 'r'\ny = 'gbps'\nseries = 'p'\n");
        let mut random = nicforge_util::Random::new(7);
        let mut next = |most: usize| random.index(most);
        let mut read = 0;
        for _ in 0..3000 {
            let mut text: Vec<char> = whole.chars().collect();
            for _ in 0..=next(3) {
                let at = next(text.len());
                match next(3) {
                    0 => text[at] = char::from(32 + next(95) as u8),
                    1 => drop(text.remove(at)),
                    _ => text.insert(at, text[at]),
                }
            }
            if let Ok(spec) = Spec::parse("s", &text.iter().collect::<String>()) {
                read += 1;
                assert!(!spec.jobs().is_empty());
            }
        }
        assert!(read > 100 && read < 2900, "{read}");
    }
}
