//! The report as a browser shows it: headless Chromium opens the page, a script measures what a
//! person would see.

use std::path::Path;
use std::process::Command;

/// Runs in the page and leaves its findings in the title: rows of the table of targets, handler
/// graphs, text that sticks out of its box, whether the page is wider than the window, whether the
/// first heading is visible, whether lines of the slowest path are marked, and whether predicted,
/// simulated and guaranteed rates stand side by side with the guaranteed one not above the
/// predicted.
const MEASURE: &str = r##"<script>
addEventListener("load", () => {
  const rows = document.querySelectorAll("#targets tbody tr").length;
  const graphs = [...document.querySelectorAll("svg")];
  let out = 0;
  for (const svg of graphs) {
    const boxes = [...svg.querySelectorAll("rect")].map(box => box.getBoundingClientRect());
    for (const text of svg.querySelectorAll("text:not([text-anchor])")) {
      const t = text.getBoundingClientRect();
      if (!boxes.some(b => t.left >= b.left && t.right <= b.right && t.top >= b.top && t.bottom <= b.bottom)) out++;
    }
  }
  const wide = document.documentElement.scrollWidth > innerWidth;
  const heading = document.querySelector("h1").getBoundingClientRect();
  const hidden = heading.height === 0 || heading.top > innerHeight;
  const chosen = document.querySelectorAll("tr.chosen").length;
  const marked = [...document.querySelectorAll(".worst")].filter(line => line.getBoundingClientRect().height > 0).length;
  const rates = [...document.querySelectorAll("#targets tbody tr")].filter(row => row.cells.length === 12)
    .every(row => [3, 4, 5].every(at => parseFloat(row.cells[at].textContent.replace("\u2265", "")) > 0)
      && parseFloat(row.cells[5].textContent.replace("\u2265", "")) <= parseFloat(row.cells[3].textContent));
  document.title = `marked ${marked > 20} rates ${rates} rows ${rows} graphs ${graphs.length} out ${out} wide ${wide} hidden ${hidden} chosen ${chosen}`;
});
</script>"##;

#[test]
fn a_browser_shows_the_report() {
    let browser = "chromium-headless-shell";
    if Command::new(browser).arg("--version").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "{browser} is missing: run scripts/bootstrap.sh");
        println!(
            "skipped: {browser} is missing: apt-get install --no-install-recommends {browser}"
        );
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("report.html");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/nf_chain");
    let status = Command::new(env!("CARGO_BIN_EXE_nicforge"))
        .arg("report")
        .arg(&example)
        .args([
            "--target",
            "agilio-cx",
            "--target",
            "bluefield2",
            "--target",
            "agilio-xdp",
            "--iterations",
            "12",
            "-o",
        ])
        .arg(&page)
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(&page).unwrap();
    let loads = ["src=", "href=\"http", "url(", "<link", "@import"]
        .into_iter()
        .find(|what| text.contains(what));
    assert_eq!(
        loads.filter(|what| *what != "url(" || text.replace("url(#tip)", "").contains("url(")),
        None
    );
    std::fs::write(&page, text.replace("</head>", &format!("{MEASURE}</head>"))).unwrap();
    let output = Command::new(browser)
        .args([
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,900",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let title = shown
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next())
        .unwrap_or_default();
    // nf_chain has tables that evict, which the offload cannot: its row says so instead of a plan.
    assert_eq!(
        title,
        "marked true rates true rows 3 graphs 2 out 0 wide false hidden false chosen 2"
    );
    let source = std::fs::read_to_string(example.join("nf_chain.c")).unwrap();
    let line = source.lines().position(|line| line.starts_with("NF_TABLE(lru, connections"));
    let line = format!("nf_chain.c:{}", line.unwrap() + 1);
    for words in [
        "agilio-xdp lacks tables of kind `lru`",
        "limited by",
        "connections",
        "why not elsewhere",
        line.as_str(),
    ] {
        assert!(shown.contains(words), "the page does not say `{words}`");
    }
}
