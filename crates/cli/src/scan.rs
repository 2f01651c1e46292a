//! Reads a namespace for those who look for what went wrong in it.

use firstclaim_client::{Client, Error, Reason, RecordRef, v1};
use tokio::task::JoinSet;

/// Records that one page asks for.
const PAGE: u32 = 500;
/// Histories that are asked for at once.
const AT_ONCE: usize = 32;

/// Records of a namespace, at most as many as were asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) records: Vec<v1::Record>,
    /// Whether there are more.
    pub(crate) more: bool,
}

/// Reads the records of a namespace by key.
pub(crate) async fn records(
    client: &Client,
    (tenant, namespace): (&str, &str),
    limit: usize,
) -> Result<Records, Error> {
    let mut found = Records::default();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRecordsRequest {
            tenant: tenant.to_owned(),
            namespace: namespace.to_owned(),
            page_size: PAGE,
            page_token,
            ..v1::ListRecordsRequest::default()
        };
        let page = client.list_records(request).await?;
        found.records.extend(page.records);
        found.more = !page.next_page_token.is_empty() || found.records.len() > limit;
        if page.next_page_token.is_empty() || found.records.len() >= limit {
            found.records.truncate(limit);
            return Ok(found);
        }
        page_token = page.next_page_token;
    }
}

/// Reads the histories of records, in the order of `keys`; one that was forgotten meanwhile is left
/// out.
pub(crate) async fn histories(
    client: &Client,
    (tenant, namespace): (&str, &str),
    keys: &[String],
) -> Result<Vec<v1::GetHistoryResponse>, Error> {
    let mut histories = Vec::new();
    for share in keys.chunks(AT_ONCE) {
        let mut reads = JoinSet::new();
        for (at, key) in share.iter().enumerate() {
            let (client, record) = (client.clone(), RecordRef::new(tenant, namespace, key));
            reads.spawn(async move { (at, client.history(&record).await) });
        }
        let mut read = Vec::new();
        while let Some(done) = reads.join_next().await {
            // Only a panic ends such a task early, and a panic ends this process.
            let Ok((at, answer)) = done else { continue };
            match answer {
                Ok(history) => read.push((at, history)),
                Err(error) if error.reason() == Reason::RecordNotFound => {}
                Err(error) => return Err(error),
            }
        }
        read.sort_by_key(|(at, _)| *at);
        histories.extend(read.into_iter().map(|(_, history)| history));
    }
    Ok(histories)
}
