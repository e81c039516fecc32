//! Plain tables and numbers for people.

/// First line of a text.
pub fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}

/// Rows under a header, columns as wide as their longest cell; numbers to the right.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let columns = header.len();
    let mut width: Vec<usize> = header.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (i, cell) in row.iter().enumerate().take(columns) {
            width[i] = width[i].max(cell.chars().count());
        }
    }
    let numeric: Vec<bool> = (0..columns)
        .map(|i| {
            !rows.is_empty()
                && rows
                    .iter()
                    .all(|r| r[i].is_empty() || r[i].starts_with(|c: char| c.is_ascii_digit()))
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::from(" ");
        for (i, cell) in cells.enumerate() {
            let pad = " ".repeat(width[i].saturating_sub(cell.chars().count()));
            text.push(' ');
            if numeric[i] {
                text.push_str(&pad);
                text.push_str(cell);
            } else {
                text.push_str(cell);
                text.push_str(&pad);
            }
            text.push(' ');
        }
        format!("{}\n", text.trim_end())
    };
    let mut out = line(&mut header.iter().copied());
    for row in rows {
        out.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    out
}

/// A rate with a unit prefix: `1.25 M`.
pub fn si(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e3 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0} "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "1".into()], vec!["long".into(), "22".into()]];
        assert_eq!(table(&["name", "n"], &rows), "  name   n\n  a      1\n  long  22\n");
    }

    #[test]
    fn rates_are_short() {
        assert_eq!(si(1_250_000.0), "1.25 M");
        assert_eq!(si(12.0), "12 ");
    }
}
