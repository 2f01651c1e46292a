//! What goes wrong, once, with a message.

/// A fault, named by what the worker does or what happens to it. A worker that "dies" stops there:
/// it acknowledges nothing, and the queue delivers the message again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing goes wrong; or it went wrong already.
    #[default]
    Nothing,
    /// Dies with the claim in hand, before anything was recorded or sent.
    DiesBeforeEffect,
    /// Stands still with a permit in hand until another attempt holds the claim; then goes on.
    StallsBeforeSend,
    /// Stands still with an unjournaled claim in hand until another attempt is at work; then says
    /// truthfully that it has done nothing.
    StallsBeforeWork,
    /// Sends; the provider acts after the worker has lost patience.
    AnswerComesLate,
    /// Sends; the provider acts, its answer is lost, and the worker dies.
    AnswerIsLost,
    /// Sends; the provider acts, its answer is lost, and the worker says that it does not know.
    AnswerIsUnknown,
    /// Sends; the request never arrives, and the worker dies.
    RequestIsLost,
    /// Has the receipt, stands still until another attempt holds the claim; then goes on.
    StallsAfterEffect,
    /// Dies with the receipt in hand, before it told anybody.
    DiesAfterEffect,
    /// Dies after the effect was settled, before the record is completed.
    DiesBeforeCompletion,
    /// Dies after the record is completed, before the message is acknowledged.
    DiesBeforeAcknowledgement,
    /// Somebody shortens the retention just before the completion.
    RetentionIsShortened,
}

impl Fault {
    /// Whether the worker comes back after another attempt has taken over, and says something.
    pub(crate) fn speaks_late(self) -> bool {
        matches!(self, Self::StallsBeforeSend | Self::StallsBeforeWork | Self::StallsAfterEffect)
    }

    /// Whether the claim has to lapse before the story goes on.
    pub(crate) fn waits_for_lapse(self) -> bool {
        match self {
            Self::Nothing
            | Self::AnswerComesLate
            | Self::AnswerIsUnknown
            | Self::DiesBeforeAcknowledgement
            | Self::RetentionIsShortened => false,
            Self::DiesBeforeEffect
            | Self::StallsBeforeSend
            | Self::StallsBeforeWork
            | Self::AnswerIsLost
            | Self::RequestIsLost
            | Self::StallsAfterEffect
            | Self::DiesAfterEffect
            | Self::DiesBeforeCompletion => true,
        }
    }

    /// What it does to a request on its way to the provider, if that is what it strikes.
    pub(crate) fn wire(self) -> Option<Wire> {
        match self {
            Self::AnswerComesLate => Some(Wire::Late),
            Self::AnswerIsLost | Self::AnswerIsUnknown => Some(Wire::AnswerLost),
            Self::RequestIsLost => Some(Wire::RequestLost),
            Self::Nothing
            | Self::DiesBeforeEffect
            | Self::StallsBeforeSend
            | Self::StallsBeforeWork
            | Self::StallsAfterEffect
            | Self::DiesAfterEffect
            | Self::DiesBeforeCompletion
            | Self::DiesBeforeAcknowledgement
            | Self::RetentionIsShortened => None,
        }
    }
}

/// What becomes of a request on its way to the provider, and of the answer on its way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Both arrive.
    Whole,
    /// The provider takes longer than the caller waits.
    Late,
    /// The provider acts at once; nobody hears of it.
    AnswerLost,
    /// The provider never hears of it.
    RequestLost,
}
