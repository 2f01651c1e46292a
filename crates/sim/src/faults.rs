//! What goes wrong in a world, by name, and how often.
//!
//! Each seed turns families of faults on and off, so that some run without the noise of others.

use crate::Random;

macro_rules! faults {
    ($($fault:ident $rate:literal $text:literal)*) => {
        /// A fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $(#[doc = $text] $fault,)* }

        impl Fault {
            /// Every fault.
            pub const ALL: &'static [Self] = &[$(Self::$fault,)*];

            /// What happens.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$fault => $text,)* }
            }

            /// How often it strikes where it is on, in a thousand chances.
            const fn rate(self) -> u64 {
                match self { $(Self::$fault => $rate,)* }
            }
        }
    };
}

faults! {
    CallLost 40 "a call never reaches the log"
    CallLate 60 "a call reaches the log after longer than a lease"
    CallAtDeadline 60 "a call reaches the log in the very millisecond of a deadline"
    NotApplied 15 "a call is refused before the log, and not sent again"
    AnswerLost 80 "an answer is lost"
    AnswerLate 60 "an answer comes after longer than a lease"
    Crash 40 "a worker dies"
    DeliveredTwice 150 "the queue delivers a message twice at once"
    DeliveredLate 60 "the queue delivers a message after its key may be forgotten"
    RequestLate 150 "a request reaches the provider as late as it can"
    ResponseLost 250 "a response of the provider is lost"
    ProviderDown 150 "the provider is not available"
    Election 600 "another leader is elected"
    ClockOff 700 "the new leader's clock is off"
    Stall 500 "nothing is stamped for longer than grace needs"
    StampOld 150 "an entry carries an older reading of the clock"
    PolicyChange 700 "the policy changes under claims that are out"
    Revoked 600 "an operator revokes a claim"
    Purged 600 "an operator purges a result"
    SweepOff 400 "the sweeper is not there"
    Deletion 500 "an operator sets out to delete a namespace"
}

/// How many there are.
const COUNT: usize = Fault::ALL.len();

/// Which faults a seed has.
#[derive(Clone, Debug)]
pub struct Plan([u64; COUNT]);

impl Plan {
    /// Turns families on and off. Something always happens to calls, answers or workers.
    pub(crate) fn new(random: &mut Random) -> Self {
        let mut rates = [0; COUNT];
        for (rate, fault) in rates.iter_mut().zip(Fault::ALL) {
            if random.chance(70) {
                *rate = fault.rate();
            }
        }
        let least = random.pick(&[Fault::CallLost, Fault::AnswerLost, Fault::Crash]);
        rates[least as usize] = 2 * least.rate();
        Self(rates)
    }

    /// Whether it happens now.
    pub(crate) fn strikes(&self, fault: Fault, random: &mut Random) -> bool {
        let rate = self.0[fault as usize];
        rate > 0 && random.below(1000) < rate
    }
}

/// How often each happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts([u64; COUNT]);

impl FaultCounts {
    pub(crate) fn add(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }

    /// How often one happened.
    #[must_use]
    pub fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// How many happened in all.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }
}
