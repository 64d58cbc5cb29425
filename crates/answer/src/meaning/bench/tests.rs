use hugetext_bench::Side;

use super::*;

/// Twelve rounds around a median, which spread by `noise`.
fn rounds(median: f64, noise: f64) -> Vec<f64> {
    let off = [
        -3.0, 2.0, -1.0, 3.0, 0.0, 1.0, -2.0, 0.5, -0.5, 1.5, -1.5, 2.5,
    ];
    off.iter()
        .map(|off| median * (1.0 + noise * off / 3.0))
        .collect()
}

fn comparison(sides: &[(&str, Vec<f64>)], measured: Option<Measured>) -> Comparison {
    let values = sides.iter().map(|(_, rounds)| rounds.clone()).collect();
    Comparison {
        benchmark: "exec".to_owned(),
        title: "cc1".to_owned(),
        sides: sides
            .iter()
            .map(|(name, _)| Side {
                name: (*name).to_owned(),
                state: String::new(),
            })
            .collect(),
        measures: vec![Measure::new("wall", Unit::Seconds, values).unwrap()],
        notes: Vec::new(),
        measured,
    }
}

fn command() -> Option<Measured> {
    Some(Measured::Command {
        program: "/usr/lib/cc1".into(),
        words: ["cc1", "-o", "a file"].map(str::to_owned).to_vec(),
    })
}

const TYPED: &str = "hugetext bench exec --rounds 12 -- cc1 -o 'a file'";

#[test]
fn a_gain_is_told_with_its_interval_and_what_gets_it() {
    let sides = [
        ("small folios", vec![0.01; 12]),
        ("warmed", rounds(0.0088, 0.01)),
        ("merged", rounds(0.008, 0.01)),
    ];
    let told = bench(
        &comparison(&sides, command()),
        TYPED,
        Some(Verdict::StartsOnly),
    );
    assert_eq!(
        told.to_string(),
        "It starts 20 % (19 to 20 %) faster merged and warmed than in small folios. \
         No gain is expected in long runs on this host. Next: hugetext run --merge -- cc1 -o 'a file'"
    );
    // The simplest that gains as much is enough.
    let told = bench(&comparison(&sides[..2], command()), TYPED, None);
    assert_eq!(
        told.to_string(),
        "It starts 12 % (11 to 12 %) faster with its text warmed than in small folios. \
         Next: hugetext warm /usr/lib/cc1"
    );
}

/// Where a start leaves larger folios than small ones, as some kernels do, less is gained than against these.
#[test]
fn the_gain_is_that_over_the_text_as_found() {
    let sides = [
        ("small folios", vec![0.01; 12]),
        ("warmed", rounds(0.0088, 0.01)),
        ("as found", vec![0.0094; 12]),
    ];
    let told = bench(&comparison(&sides, command()), TYPED, None).to_string();
    assert!(told.starts_with("It starts 6.3 % ("), "{told}");
    assert!(
        told.contains("faster with its text warmed than as found."),
        "{told}"
    );
}

#[test]
fn no_difference_has_a_size_and_a_number_of_rounds_and_is_never_absurd() {
    let told = |noise| {
        let sides = [
            ("small folios", vec![0.01; 12]),
            ("warmed", rounds(0.01, noise)),
        ];
        bench(
            &comparison(&sides, command()),
            TYPED,
            Some(Verdict::WorthIt),
        )
        .to_string()
    };
    let fine = told(0.02);
    assert!(
        fine.starts_with("No difference seen in its starts: one of 1.5 % or more would have been;"),
        "{fine}"
    );
    assert!(
        fine.contains("hugetext bench exec --rounds ") && fine.ends_with("-- cc1 -o 'a file'"),
        "{fine}"
    );
    let wild = told(0.9);
    assert!(
        wild.starts_with("Nothing can be told in its starts"),
        "{wild}"
    );
    for text in [fine, wild] {
        let numbers = text.split_whitespace().zip(text.split_whitespace().skip(1));
        let percents = numbers.filter(|(_, sign)| sign.starts_with('%'));
        for (number, _) in percents {
            assert!(
                number.trim_matches('(').parse::<f64>().unwrap() < 100.0,
                "{text}"
            );
        }
    }
}

#[test]
fn a_service_that_loses_is_told_so() {
    let measured = Some(Measured::Processes {
        words: ["--unit", "web"].map(str::to_owned).to_vec(),
    });
    let sides = [
        ("reverted", vec![0.01; 16]),
        ("promoted", rounds(0.0105, 0.005)),
    ];
    let mut lost = comparison(&sides, measured);
    lost.measures = vec![
        Measure::new(
            "processor time per unit",
            Unit::Seconds,
            vec![vec![0.01; 12], rounds(0.0105, 0.005)],
        )
        .unwrap(),
    ];
    let told = bench(&lost, "hugetext bench live --unit web --log x", None).to_string();
    assert_eq!(
        told,
        "A unit of its work takes 5.0 % (4.7 to 5.4 %) more processor time with its text on huge pages. \
         Next: hugetext host"
    );
}

#[test]
fn the_number_of_rounds_takes_the_place_of_the_old_one() {
    let finer = Finer {
        rounds: 90,
        share: 0.01,
    };
    let sides = [("small folios", vec![1.0])];
    let again = |typed: &str| more_rounds(&comparison(&sides, None), typed, finer);
    for (typed, wanted) in [
        (
            "hugetext bench exec -- a --rounds 3",
            "hugetext bench exec --rounds 90 -- a --rounds 3",
        ),
        (
            "hugetext bench exec --rounds=3 -- a",
            "hugetext bench exec --rounds 90 -- a",
        ),
        (
            "hugetext -q bench work --rounds 3 git",
            "hugetext -q bench work --rounds 90 git",
        ),
        (
            "hugetext bench --json cold",
            "hugetext bench cold --rounds 90",
        ),
    ] {
        assert_eq!(again(typed), wanted);
    }
}
