//! Many processes, one lock: what they do under it comes out right.

use std::fs;
use std::time::Duration;

use crate::support::{Locks, PATIENCE, done, within};

const PROCESSES: usize = 8;
const ROUNDS: usize = 50;

/// Notes its entry, and whether the holder before it still runs; reads a number, pauses, and writes it plus one. If told so,
/// it kills its lockctl, the parent of its guard process, in between, and would stay for ever.
const ADD_ONE: &str = r#"
    uptime() { cut -d' ' -f1 /proc/uptime; }
    cd "$DIRECTORY"
    set -- $(grep '^enter' log | tail -n 1)
    if [ $# -gt 0 ] && grep -qs "LOCK_OWNER=$4" "/proc/$3/environ"; then echo "overlap $3 $$" >>log; fi
    echo "enter $LOCK_TOKEN $$ $LOCK_OWNER $(uptime)" >>log
    number=$(cat counter)
    sleep 0.002
    if [ -n "$KILL" ]; then
        echo "kill $(uptime)" >>log
        kill -KILL "$(cut -d' ' -f4 "/proc/$PPID/stat")"
        exec sleep 1000
    fi
    echo $((number + 1)) >counter
"#;

/// What came of many processes that count.
struct Count {
    number: usize,
    tokens: Vec<u64>,
    overlaps: Vec<String>,
    /// The time from each killing to the next entry.
    costs: Vec<Duration>,
}

/// Lets `PROCESSES` times `ROUNDS` processes count, of which some are killed.
async fn count(ttl: &'static str, is_killed: fn(usize) -> bool) -> Count {
    let locks = Locks::new();
    fs::write(locks.path("counter"), "0\n").unwrap();
    fs::write(locks.path("log"), "").unwrap();
    let series = (0..PROCESSES).map(|process| {
        let runs: Vec<_> = (0..ROUNDS)
            .map(|round| {
                let killed = is_killed(process + round * PROCESSES);
                let mut run = locks.run("counter", &["--ttl", ttl], ADD_ONE);
                run.env("DIRECTORY", locks.path("")).env("KILL", if killed { "yes" } else { "" });
                (killed, run)
            })
            .collect();
        tokio::spawn(async move {
            for (killed, mut run) in runs {
                let done = done(&mut run).await;
                assert_eq!(done.status, if killed { None } else { Some(0) }, "{done:?}");
            }
        })
    });
    for series in series.collect::<Vec<_>>() {
        within(10 * PATIENCE, series).await.unwrap();
    }
    let number = fs::read_to_string(locks.path("counter")).unwrap().trim_end().parse().unwrap();
    let mut count = Count { number, tokens: Vec::new(), overlaps: Vec::new(), costs: Vec::new() };
    let mut killed_at = None;
    for line in fs::read_to_string(locks.path("log")).unwrap().lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["enter", token, _, _, at] => {
                count.tokens.push(token.parse().unwrap());
                count.costs.extend(killed_at.take().map(|killed_at| seconds(at).saturating_sub(killed_at)));
            }
            ["kill", at] => killed_at = Some(seconds(at)),
            _ => count.overlaps.push(line.to_owned()),
        }
    }
    count
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs_f64(text.parse().unwrap())
}

impl Count {
    fn assert_exclusive(&self, number: usize) {
        assert_eq!(self.overlaps, [""; 0]);
        assert_eq!(self.tokens.len(), PROCESSES * ROUNDS);
        assert!(self.tokens.is_sorted_by(|earlier, later| earlier < later), "{:?}", self.tokens);
        assert_eq!(self.number, number);
    }
}

#[tokio::test]
async fn a_counter_comes_out_right() {
    count("30s", |_| false).await.assert_exclusive(PROCESSES * ROUNDS);
}

#[tokio::test]
async fn killed_holders_cost_their_ttl_and_nothing_else() {
    let count = count("1s", |run| run % 10 == 9).await;
    count.assert_exclusive(PROCESSES * ROUNDS * 9 / 10);
    let worst = count.costs.iter().max().unwrap();
    assert!(count.costs.len() >= PROCESSES * ROUNDS / 10 - 1, "{:?}", count.costs);
    assert!(*worst <= Duration::from_secs(2), "{worst:?}");
}
