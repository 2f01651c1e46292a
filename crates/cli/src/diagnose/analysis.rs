//! What follows from the pasts of keys. No clock, no network: the same pasts, the same diagnosis.
//!
//! A *repeat* is a claim of a key by another attempt after one was granted, unless that one had been
//! given back for another try, or the repeat is only the next question of somebody who was turned
//! away. Each repeat is put down to one cause, by its nearest kin among the claims before it:
//!
//! 1. a grant to the same instance in the same delivery of the same message → the handler retries;
//! 2. a claim for the same message → the message was redelivered;
//! 3. only claims for other messages → the producer published twice;
//! 4. no message labels → nobody can say.
//!
//! Two causes show across keys: one fingerprint under many keys, and deliveries that never asked. For
//! the latter the hits must be zero: nowhere in the scope was any claim a repeat, although a message
//! was claimed under a delivery number above one whose earlier numbers never came by.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::finding::{Cause, Diagnosis, Finding};
use super::past::{Ended, Event, Past};
use crate::duration::about;

/// Says where idempotency was lost in the scope of these pasts.
pub(crate) fn diagnose(pasts: &[Past]) -> Diagnosis {
    let mut findings = Findings::default();
    let mut split = Split::default();
    for past in pasts {
        one_key(past, &mut findings, &mut split);
    }
    key_per_attempt(pasts, &mut findings);
    let (grants, hits) = (grants(pasts), hits(pasts));
    if hits == 0 {
        check_skipped(pasts, &mut findings);
    }
    if let Some(found) = findings.0.get_mut(&Cause::Redelivery) {
        found.details = split.words();
    }
    Diagnosis { keys: pasts.len(), grants, hits, findings: findings.0.into_values().collect() }
}

#[derive(Default)]
struct Findings(BTreeMap<Cause, Finding>);

impl Findings {
    fn of(&mut self, cause: Cause) -> &mut Finding {
        self.0.entry(cause).or_insert_with(|| Finding::new(cause))
    }
}

/// How redeliveries fall apart.
#[derive(Default)]
struct Split {
    at_work: u64,
    /// The shortest time from a grant to a delivery that came while it was at work.
    soonest: Option<u64>,
    /// The longest work that was overtaken by a delivery.
    longest: u64,
    after_end: u64,
    after_loss: u64,
}

impl Split {
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.at_work > 0 {
            let soonest = about(Duration::from_millis(self.soonest.unwrap_or(0)));
            let mut text = format!(
                "{} came while the earlier delivery was still at work: the visibility window is \
                 shorter than the work (again after {soonest}",
                self.at_work
            );
            if self.longest > 0 {
                text += &format!(
                    "; the work took up to {}",
                    about(Duration::from_millis(self.longest))
                );
            }
            words.push(text + ")");
        }
        if self.after_end > 0 {
            words.push(format!(
                "{} came after the completion: the acknowledgement was lost, late or not sent",
                self.after_end
            ));
        }
        if self.after_loss > 0 {
            words.push(format!(
                "{} came after the earlier worker had died, lost its claim, or did not know",
                self.after_loss
            ));
        }
        words
    }

    fn note(&mut self, base: &Event, repeat: &Event) {
        match base.ended() {
            Some((Ended::Lost | Ended::GivenBack, _)) => self.after_loss += 1,
            Some((Ended::Completed, end)) if end <= repeat.time => self.after_end += 1,
            Some((Ended::Completed, end)) => {
                self.longest = self.longest.max(end.saturating_sub(base.time));
                self.note_at_work(base, repeat);
            }
            None => self.note_at_work(base, repeat),
        }
    }

    fn note_at_work(&mut self, base: &Event, repeat: &Event) {
        self.at_work += 1;
        let gap = repeat.time.saturating_sub(base.time);
        self.soonest = Some(self.soonest.map_or(gap, |known| known.min(gap)));
    }
}

fn grants(pasts: &[Past]) -> u64 {
    pasts.iter().map(|past| granted(past).count() as u64).sum()
}

fn granted(past: &Past) -> impl Iterator<Item = &Event> {
    past.events.iter().filter(|event| event.granted())
}

fn hits(pasts: &[Past]) -> u64 {
    pasts
        .iter()
        .map(|past| {
            let counted: u64 = past.counts.values().sum();
            let kept = past.events.iter().filter(|event| !event.granted()).count() as u64;
            let again = (granted(past).count() as u64).saturating_sub(1);
            counted.max(kept) + again
        })
        .sum()
}

fn one_key(past: &Past, findings: &mut Findings, split: &mut Split) {
    for (at, repeat) in past.events.iter().enumerate() {
        let before = &past.events[..at];
        if repeat.of_another_request() {
            let found = findings.of(Cause::KeyReused);
            found.count(&past.key, repeat.time);
            if let Some(first) = before.iter().find(|event| event.granted()) {
                found.show(&past.key, first, "");
            }
            found.show(&past.key, repeat, "");
            continue;
        }
        let Some((cause, base)) = classify(before, repeat) else { continue };
        if cause == Cause::Redelivery {
            split.note(base, repeat);
        }
        let gap = about(Duration::from_millis(repeat.time.saturating_sub(base.time)));
        let found = findings.of(cause);
        found.count(&past.key, repeat.time);
        found.show(&past.key, base, "");
        found.show(&past.key, repeat, &format!("{gap} after that"));
    }
}

/// The cause of a claim being a repeat, with the grant that it repeats; none if it is no incident.
fn classify<'a>(before: &'a [Event], repeat: &Event) -> Option<(Cause, &'a Event)> {
    let stands = |event: &&Event| event.granted() && !event.given_back_by(repeat.time);
    let latest = before.iter().rev().find(stands)?;
    match before.iter().rev().find(|event| event.same_delivery(repeat)) {
        // The next question of somebody who was told to wait.
        Some(kin) if kin.told_to_wait() => return None,
        Some(kin) if !kin.granted() => return Some((Cause::RetryInHandler, latest)),
        Some(kin) if !kin.given_back_by(repeat.time) => return Some((Cause::RetryInHandler, kin)),
        Some(_) | None => {}
    }
    let Some(message) = &repeat.message else { return Some((Cause::Unlabelled, latest)) };
    let of_message = |event: &&Event| event.message.as_ref() == Some(message);
    if before.iter().any(|event| of_message(&event)) {
        let base = before.iter().rev().find(|event| stands(event) && of_message(event));
        return Some((Cause::Redelivery, base.unwrap_or(latest)));
    }
    if before.iter().all(|event| event.message.is_none()) {
        return Some((Cause::Unlabelled, latest));
    }
    let base = before.iter().rev().find(|event| stands(event) && event.message.is_some());
    Some((Cause::PublishedTwice, base.unwrap_or(latest)))
}

fn key_per_attempt(pasts: &[Past], findings: &mut Findings) {
    let mut by_request: BTreeMap<&(String, Vec<u8>), Vec<&Past>> = BTreeMap::new();
    for past in pasts {
        if let Some(fingerprint) = &past.fingerprint
            && granted(past).next().is_some()
        {
            by_request.entry(fingerprint).or_default().push(past);
        }
    }
    let (mut in_worker, mut at_producer) = (0_u64, 0_u64);
    for mut same in by_request.into_values().filter(|same| same.len() > 1) {
        same.sort_by_key(|past| granted(past).next().map(|event| event.time));
        let found = findings.of(Cause::KeyPerAttempt);
        let mut messages = BTreeSet::new();
        for (at, past) in same.iter().enumerate() {
            let Some(first) = granted(past).next() else { continue };
            if at > 0 {
                found.count(&past.key, first.time);
                match &first.message {
                    Some(message) if messages.contains(message) => in_worker += 1,
                    Some(_) => at_producer += 1,
                    None => {}
                }
            } else {
                found.keys.insert(past.key.clone());
            }
            messages.extend(first.message.clone());
            found.show(&past.key, first, "");
        }
    }
    if let Some(found) = findings.0.get_mut(&Cause::KeyPerAttempt) {
        if in_worker > 0 {
            found.details.push(format!(
                "{in_worker} for a message that had a key already: minted in the worker"
            ));
        }
        if at_producer > 0 {
            found.details.push(format!(
                "{at_producer} for another message: minted by the producer per publication"
            ));
        }
    }
}

/// Deliveries that never asked. Only called where no claim was a repeat.
fn check_skipped(pasts: &[Past], findings: &mut Findings) {
    let mut by_message: BTreeMap<&str, Vec<(&Past, &Event, u64)>> = BTreeMap::new();
    for past in pasts {
        for event in &past.events {
            let number = event.delivery.as_ref().and_then(|text| text.parse().ok());
            if let (Some(message), Some(number)) = (&event.message, number) {
                by_message.entry(message).or_default().push((past, event, number));
            }
        }
    }
    for (message, asked) in by_message {
        let numbers: BTreeSet<u64> = asked.iter().map(|(_, _, number)| *number).collect();
        let last = numbers.last().copied().unwrap_or(0);
        let never = last.saturating_sub(numbers.len() as u64);
        let Some((past, event, _)) = asked.iter().find(|(_, _, number)| *number == last) else {
            continue;
        };
        if never == 0 || numbers.contains(&0) {
            continue;
        }
        let found = findings.of(Cause::CheckSkipped);
        found.count(&past.key, event.time);
        let remark = format!("{never} of {last} deliveries of message {message} never asked");
        found.show(&past.key, event, &remark);
    }
}

#[cfg(test)]
mod tests;
