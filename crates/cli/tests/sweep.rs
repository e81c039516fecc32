//! `nicforge sweep`: combinations, resumption, failures, plots, and a Dask cluster on loopback.

mod common;

use common::{Place, can_load, example};

/// Plans of two programs on two targets, quickly.
fn sweep(place: &Place, targets: &str, more: &str) {
    let text = format!(
        "command = ['plan', '{}/{{program}}', '--target', '{{target}}', '--iterations', '2']\n\
         [over]\nprogram = ['l2_forward', 'icmp_echo']\ntarget = [{targets}]\n\
         [columns]\npps = 'predicted.rate_pps'\nstages = 'stages.0.name'\n{more}",
        example("")
    );
    place.file("s.toml", text);
}

const PLOT: &str = "[plot]\nx = 'target'\ny = 'pps'\nseries = 'program'\n";

fn results(place: &Place) -> Vec<String> {
    let text = std::fs::read_to_string(place.path().join("s/results.csv")).unwrap();
    text.lines().map(str::to_string).collect()
}

#[test]
fn a_sweep_makes_a_table_and_a_plot_and_goes_on_where_it_was() {
    let place = Place::new();
    sweep(&place, "'bluefield2', 'dpdk'", PLOT);
    let dry = place.run(&["sweep", "s.toml", "--dry-run"]);
    assert_eq!(dry.ok().lines().count(), 4);
    assert!(dry.out.contains("/l2_forward --target dpdk --iterations 2 --json\n"), "{dry:?}");

    let ran = place.run(&["sweep", "s.toml"]);
    assert_eq!(ran.code(), 0, "{ran:?}");
    let rows = results(&place);
    assert_eq!(rows[0], "program,target,pps,stages,seconds,error");
    assert!(rows.len() == 5 && rows[1].starts_with("l2_forward,bluefield2,"), "{rows:?}");
    assert!(
        rows.iter().skip(1).all(|row| row.contains(",net_recv,") && row.ends_with(',')),
        "{rows:?}"
    );
    let plot = std::fs::read_to_string(place.path().join("s/plot.svg")).unwrap();
    for words in ["<svg", "<circle", "l2_forward", "bluefield2", "pps"] {
        assert!(plot.contains(words), "{words}");
    }

    // A killed run: two rows, and half of a third.
    let half = format!("{}\n{}\n{}\nicmp_ec", rows[0], rows[1], rows[2]);
    place.file("s/results.csv", half);
    let again = place.run(&["sweep", "s.toml"]);
    assert!(again.err.contains("2 of 4 combinations are to be run"), "{again:?}");
    assert_eq!(results(&place)[..3], rows[..3]);
    assert_eq!(results(&place).len(), 5);
}

#[test]
fn what_fails_is_said_and_tried_again() {
    let place = Place::new();
    sweep(&place, "'bluefield2', 'nowhere'", "");
    place
        .run(&["sweep", "s.toml"])
        .fails(1, &["2 combinations failed; results.csv says why", "wrote"]);
    let rows = results(&place);
    assert!(rows[2].contains(",,") && rows[2].contains("there is no such target"), "{rows:?}");
    place
        .run(&["sweep", "s.toml"])
        .fails(1, &["2 of 4 combinations are to be run", "there is no such target"]);

    sweep(&place, "'bluefield2'", "more = 'no.such'\n");
    place.run(&["sweep", "s.toml"]).fails(1, &["the results of another sweep; remove them"]);
    place
        .run(&["sweep", "s.toml", "-o", "other"])
        .fails(1, &["its JSON has no `no.such` for column `more`"]);
    sweep(&place, "[1]", "");
    place.run(&["sweep", "s.toml"]).fails(1, &["s.toml: over.target takes numbers and strings"]);
    place.run(&["sweep", "none.toml"]).fails(1, &["none.toml: No such file"]);
}

#[test]
fn a_dask_cluster_gives_what_this_machine_gives() {
    if !can_load() {
        return;
    }
    let place = Place::new();
    sweep(&place, "'bluefield2', 'dpdk'", PLOT);
    place.run(&["sweep", "s.toml"]).ok();
    let here = results(&place);
    let Some(python) = std::env::var_os("NICFORGE_PYTHON") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "NICFORGE_PYTHON is not set: run scripts/bootstrap.sh"
        );
        println!("skipped: NICFORGE_PYTHON is not set; `make test` sets it");
        return;
    };
    let mut command = place.script(
        r#"
ip link set lo up
export PATH="$(dirname "$NICFORGE"):$PATH"
"$PYTHON" -m distributed.cli.dask_scheduler --host 127.0.0.1 --port 8786 --no-dashboard \
    > scheduler.log 2>&1 &
"$PYTHON" -m distributed.cli.dask_worker 127.0.0.1:8786 --nthreads 2 --no-nanny --no-dashboard \
    > worker.log 2>&1 &
"$NICFORGE" sweep s.toml -o cluster --python "$PYTHON" --scheduler 127.0.0.1:8786
"#,
    );
    command.env("PYTHON", std::path::Path::new(&python).join("bin/python"));
    let ran = common::finish(command);
    assert_eq!(ran.code(), 0, "{ran:?}");
    // All but the time it took.
    let text = std::fs::read_to_string(place.path().join("cluster/results.csv")).unwrap();
    let cells = |row: &str| {
        row.split(',').enumerate().filter(|(at, _)| *at != 4).map(|(_, c)| c.to_string()).collect()
    };
    let without = |rows: Vec<&str>| -> Vec<Vec<String>> { rows.into_iter().map(cells).collect() };
    assert_eq!(without(text.lines().collect()), without(here.iter().map(String::as_str).collect()));
    place
        .run(&[
            "sweep",
            "s.toml",
            "-o",
            "none",
            "--python",
            "/no/python",
            "--scheduler",
            "127.0.0.1:1",
        ])
        .fails(3, &["/no/python: No such file"]);
}
