use super::*;

const SOUND: SnapshotFacts = SnapshotFacts {
    next_offset: NextOffset(0),
    health: SnapshotHealth::Sound,
    last_record: LastRecord::Same,
};

fn at(offset: i64) -> SnapshotFacts {
    SnapshotFacts { next_offset: NextOffset(offset), ..SOUND }
}

fn facts(committed: Option<i64>, log: (i64, i64), snapshots: &[SnapshotFacts]) -> ResumeFacts<'_> {
    ResumeFacts {
        committed: committed.map(NextOffset),
        log: LogRange { start: NextOffset(log.0), end: NextOffset(log.1) },
        snapshots,
        parked: None,
        start: StartFrom::Earliest,
        lost_history: LostHistory::Refuse,
    }
}

fn points(resume: &Resume) -> (Origin, i64, i64, bool) {
    (resume.origin, resume.replay_from.0, resume.publish_from.0, resume.warm_up)
}

#[test]
fn a_new_group_starts_at_the_log() {
    let resume = decide(&facts(None, (0, 100), &[])).expect("fresh");
    assert_eq!(points(&resume), (Origin::Fresh, 0, 0, false));
    let latest = ResumeFacts { start: StartFrom::Latest, ..facts(None, (0, 100), &[]) };
    assert_eq!(points(&decide(&latest).expect("fresh")), (Origin::Fresh, 100, 100, true));
    let expired = decide(&facts(None, (40, 100), &[])).expect("fresh");
    assert_eq!(points(&expired), (Origin::Fresh, 40, 40, true), "earlier records may have existed");
}

#[test]
fn a_stage_without_state_goes_on_where_the_group_left_it() {
    let points = |facts: &ResumeFacts<'_>| decide_stateless(facts).map(|resume| points(&resume));
    assert_eq!(points(&facts(Some(70), (0, 100), &[])), Ok((Origin::Fresh, 70, 70, false)));
    assert_eq!(points(&facts(None, (40, 100), &[])), Ok((Origin::Fresh, 40, 40, false)));
    let latest = ResumeFacts { start: StartFrom::Latest, ..facts(None, (0, 100), &[]) };
    assert_eq!(points(&latest), Ok((Origin::Fresh, 100, 100, false)));
    assert!(matches!(points(&facts(Some(101), (0, 100), &[])), Err(ResumeRefusal::OtherLog { .. })));
    assert!(matches!(points(&facts(Some(30), (40, 100), &[])), Err(ResumeRefusal::HistoryLost { .. })));
    let rebuild = ResumeFacts { lost_history: LostHistory::Rebuild, ..facts(Some(30), (40, 100), &[]) };
    assert_eq!(points(&rebuild), Ok((Origin::Fresh, 40, 40, false)));
}

/// Row: before the transaction commits. The outputs of C.. were aborted.
#[test]
fn a_crash_before_the_commit_replays_from_the_snapshot_and_publishes_again() {
    let resume = decide(&facts(Some(70), (0, 100), &[at(50)])).expect("resume");
    assert_eq!(points(&resume), (Origin::Snapshot(0), 50, 70, false));
    assert!(resume.explanation.contains("replaying 20 offsets muted"), "{}", resume.explanation);
}

/// Row: commit sent, answer lost. Whether it went through shows in the stable committed offset.
#[test]
fn a_lost_answer_is_settled_by_the_committed_offset() {
    let went_through = decide(&facts(Some(90), (0, 100), &[at(50)])).expect("resume");
    let was_aborted = decide(&facts(Some(70), (0, 100), &[at(50)])).expect("resume");
    assert_eq!(went_through.publish_from, NextOffset(90));
    assert_eq!(was_aborted.publish_from, NextOffset(70));
}

/// Row: after commit, before snapshot.
#[test]
fn a_crash_before_the_snapshot_replays_muted() {
    let resume = decide(&facts(Some(70), (0, 70), &[at(30), at(50)])).expect("resume");
    assert_eq!(points(&resume), (Origin::Snapshot(1), 50, 70, false), "the newest one is used");
    let exact = decide(&facts(Some(50), (0, 70), &[at(50)])).expect("resume");
    assert_eq!(points(&exact), (Origin::Snapshot(0), 50, 50, false));
}

/// Row: half-written or rotten snapshot.
#[test]
fn a_damaged_snapshot_is_set_aside_for_the_generation_before() {
    let rotten = SnapshotFacts { health: SnapshotHealth::Damaged, ..at(60) };
    let resume = decide(&facts(Some(70), (0, 100), &[rotten, at(50)])).expect("resume");
    assert_eq!(points(&resume), (Origin::Snapshot(1), 50, 70, false));
    assert_eq!(resume.set_aside, [0]);
    let none_left = decide(&facts(Some(70), (0, 100), &[rotten])).expect("resume");
    assert_eq!(points(&none_left), (Origin::Rebuild, 0, 70, false));
}

/// Row: S or C below the log's start.
#[test]
fn lost_history_needs_the_operators_word() {
    for (committed, snapshots, from) in [(70, vec![at(20)], 20), (30, vec![], 30), (30, vec![at(30)], 30)] {
        let refused = facts(Some(committed), (40, 100), &snapshots);
        assert_eq!(
            decide(&refused),
            Err(ResumeRefusal::HistoryLost { from: NextOffset(from), to: NextOffset(40) })
        );
        let allowed = ResumeFacts { lost_history: LostHistory::Rebuild, ..refused };
        let resume = decide(&allowed).expect("allowed");
        assert_eq!((resume.replay_from.0, resume.publish_from.0), (40, committed.max(40)));
        assert!(resume.warm_up);
    }
}

/// Row: topic recreated or truncated.
#[test]
fn another_log_is_refused_with_the_way_out() {
    let different = SnapshotFacts { last_record: LastRecord::Different, ..at(50) };
    for facts in [
        facts(Some(70), (0, 60), &[]),
        facts(Some(40), (0, 45), &[at(50)]),
        facts(Some(70), (0, 100), &[different]),
        facts(None, (0, 100), &[different]),
    ] {
        let refusal = decide(&facts).expect_err("another log");
        assert!(matches!(refusal, ResumeRefusal::OtherLog { .. }), "{refusal}");
        assert!(refusal.to_string().contains("new group name"), "{refusal}");
    }
}

/// Row: another member took the partition. Its commits went past our snapshots, which stay valid;
/// and ours may be ahead of a commit that was fenced.
#[test]
fn snapshots_serve_after_another_member_moved_on() {
    let resume = decide(&facts(Some(90), (0, 100), &[at(50)])).expect("resume");
    assert_eq!(points(&resume), (Origin::Snapshot(0), 50, 90, false));
    let ahead = decide(&facts(Some(70), (0, 100), &[at(80), at(60)])).expect("resume");
    assert_eq!(points(&ahead), (Origin::Snapshot(1), 60, 70, false), "80 was never committed");
}

/// Row: new host without a snapshot; and a changed configuration, which is the same.
#[test]
fn without_a_snapshot_the_state_is_rebuilt_muted() {
    let foreign = SnapshotFacts { health: SnapshotHealth::Foreign, ..at(60) };
    for snapshots in [vec![], vec![foreign]] {
        let resume = decide(&facts(Some(70), (0, 100), &snapshots)).expect("resume");
        assert_eq!(points(&resume), (Origin::Rebuild, 0, 70, false));
        assert!(resume.set_aside.is_empty(), "a foreign snapshot is somebody's");
    }
    let shortened = decide(&facts(Some(70), (40, 100), &[])).expect("resume");
    assert_eq!(points(&shortened), (Origin::Rebuild, 40, 70, true));
}

#[test]
fn a_state_kept_in_memory_serves_only_where_nobody_went_on() {
    let parked = |at, committed, log: (i64, i64)| {
        decide(&ResumeFacts { parked: Some(NextOffset(at)), ..facts(committed, log, &[self::at(50)]) })
    };
    let resume = parked(70, Some(70), (0, 100)).expect("resume");
    assert_eq!(points(&resume), (Origin::Parked, 70, 70, false), "rather than the snapshot");
    for committed in [69, 71] {
        let resume = parked(70, Some(committed), (0, 100)).expect("resume");
        assert_eq!(points(&resume), (Origin::Snapshot(0), 50, committed, false));
        assert!(resume.explanation.ends_with("is at 70 and is dropped"), "{}", resume.explanation);
    }
    let expired = parked(70, Some(70), (80, 100)).expect_err("records between are gone");
    assert!(matches!(expired, ResumeRefusal::HistoryLost { .. }), "{expired}");
    let cut_off = parked(70, Some(70), (0, 60)).expect_err("another log");
    assert!(matches!(cut_off, ResumeRefusal::OtherLog { .. }), "{cut_off}");
    let forgotten = parked(70, None, (0, 100)).expect_err("the snapshot shows progress");
    assert!(matches!(forgotten, ResumeRefusal::ProgressForgotten { .. }), "{forgotten}");
}

#[test]
fn progress_is_not_silently_forgotten() {
    let refusal = decide(&facts(None, (0, 100), &[at(50)])).expect_err("progress without a commit");
    assert_eq!(refusal, ResumeRefusal::ProgressForgotten { snapshot: NextOffset(50) });
}

#[test]
fn whatever_the_facts_nothing_is_published_twice_or_left_out() {
    let snapshots = [at(0), at(20), SnapshotFacts { health: SnapshotHealth::Damaged, ..at(35) }, at(60)];
    for committed in 0..=100 {
        for start in 0..=100 {
            for count in 0..=snapshots.len() {
                let found = &snapshots[..count];
                let Ok(resume) = decide(&facts(Some(committed), (start, 100), found)) else { continue };
                assert_eq!(resume.publish_from.0, committed, "published from exactly C on");
                assert!(resume.replay_from <= resume.publish_from && resume.replay_from.0 >= start);
            }
        }
    }
}

#[test]
fn a_topic_with_another_id_is_another_log() {
    assert_eq!(check_same_topic(Some(&"a"), Some(&"a")), Ok(()));
    assert_eq!([check_same_topic(None, Some(&"a")), check_same_topic(Some(&"a"), None)], [Ok(()), Ok(())]);
    let refusal = check_same_topic(Some(&"a"), Some(&"b")).expect_err("another one").to_string();
    assert!(refusal.contains("id was a when this process began, and is b"), "{refusal}");
}
