//! What the history tells of the processes that took part.
use std::collections::HashMap;
use std::time::Duration;

use lock_core::BootTime;

use crate::history::{Became, History};

/// What became of one process.
#[derive(Default)]
pub(crate) struct Life {
    /// From when to when it was stopped.
    pub(crate) stops: Vec<(BootTime, BootTime)>,
    pub(crate) closed: Option<BootTime>,
    pub(crate) dead: Option<BootTime>,
}

const NEVER: BootTime = BootTime::from_boot(Duration::MAX);

impl History {
    pub(crate) fn lives(&self) -> HashMap<u32, Life> {
        let mut lives: HashMap<u32, Life> = HashMap::new();
        for event in self.processes() {
            let life = lives.entry(event.process).or_default();
            match event.became {
                Became::Stopped => life.stops.push((event.at, NEVER)),
                // Once is enough, however often it was stopped.
                Became::Running => {
                    let open = life.stops.iter_mut().filter(|(_, until)| *until == NEVER);
                    open.for_each(|(_, until)| *until = event.at);
                }
                Became::Closed => life.closed = Some(event.at),
                Became::Dead => life.dead = Some(event.at),
            }
        }
        lives
    }
}

impl Life {
    /// The moment from which a call of something that was over at `over` may still be `late`: a call that a stop has caught on
    /// its way out is sent when the process goes on.
    pub(crate) fn last_call(&self, over: BootTime, late: Duration) -> BootTime {
        let mut stops = self.stops.clone();
        stops.sort_unstable();
        stops.into_iter().fold(over, |over, (from, until)| if from <= over + late { over.max(until) } else { over })
    }
}
