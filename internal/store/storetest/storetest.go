// Package storetest is what every database has to do for the engine, as tests.
package storetest

import (
	"testing"

	"holdfast.dev/holdfast/internal/store"
)

// Open makes an empty store, which it closes when the test ends.
type Open func(t testing.TB) *store.Store

// Run tries everything on the stores that open makes.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *store.Store){
		"Transaction/RollsBackAnError":             rollsBackAnError,
		"Transaction/RollsBackAPanic":              rollsBackAPanic,
		"Transaction/RollsBackAnEndedGoroutine":    rollsBackAnEndedGoroutine,
		"Transaction/FailsForGoodAfterAFailure":    failsForGood,
		"Transaction/LateFailuresUndoAll":          lateFailuresUndoAll,
		"Transaction/ReadsSeeWhatWasWritten":       readsSeeWhatWasWritten,
		"Transaction/IsNothingAfterItsEnd":         isNothingAfterItsEnd,
		"Transaction/DoesNotRunForAnEndedContext":  doesNotRunForAnEndedContext,
		"Transaction/ViewSeesOneSnapshot":          viewSeesOneSnapshot,
		"Transaction/ViewDoesNotWrite":             viewDoesNotWrite,
		"Transaction/LookIsOneStatement":           lookIsOneStatement,
		"Transaction/ConcurrentUpdatesAllHappen":   concurrentUpdatesAllHappen,
		"Transaction/FailuresAmongOthersStayAlone": failuresStayAlone,
		"Transaction/NotifiesAfterTheCommit":       notifiesAfterTheCommit,
		"Transaction/ReadyWhileOpen":               readyWhileOpen,

		"Difference/NULAndBadUTF8AreRefused":   refusesText,
		"Difference/NamesSortByByte":           namesSortByByte,
		"Difference/SearchTakesBytesAsTheyAre": searchTakesBytes,
		"Difference/EmptyIsNotMissing":         emptyIsNotMissing,
		"Difference/LargeBytes":                largeBytes,
		"Difference/TimesToTheMicrosecond":     times,
		"Difference/ReferencesHold":            referencesHold,

		"Page/LimitsAndCursorsAreChecked": pagesAreChecked,

		"Setting":                     settings,
		"Organization":                organizations,
		"User":                        users,
		"Account":                     accounts,
		"Agent":                       agents,
		"Credential":                  credentials,
		"Token/List":                  tokens,
		"Permission":                  permissions,
		"Session":                     sessions,
		"SignInLink":                  signInLinks,
		"SignInLink/OneWinner":        oneSignIn,
		"State":                       states,
		"State/List":                  listStates,
		"State/OneLockWinner":         oneLockWinner,
		"State/Purge":                 purgeState,
		"State/DanglingHeadIsNoState": danglingHead,
		"Resource":                    resources,
		"Resource/Replace":            replaceResources,
		"Resource/Unlisted":           unlistedStates,
		"Version":                     versions,
		"Version/Replace":             replaceVersion,
		"Version/Retention":           versionsBeyond,
		"Object":                      objects,
		"Object/Staging":              staging,
		"Object/Sweep":                sweepStaged,
		"Object/Head":                 heads,
		"Blob":                        blobs,
		"Blob/Drop":                   dropBlobs,
		"Blob/Sweep":                  sweepOldBlobs,
		"Blob/AttachOrDoom":           attachOrDoom,
		"Blob/Version":                versionBlobs,
		"Key":                         keys,
		"Stack":                       stacks,
		"Run":                         runs,
		"Run/ChangedComponentsOnly":   changedComponentsOnly,
		"Run/List":                    listRuns,
		"Run/Turns":                   turns,
		"Run/Key":                     runKeys,
		"Event":                       events,
		"Event/NoGaps":                eventsWithoutGaps,
		"Log":                         logs,
		"Log/Concurrent":              concurrentLogs,
		"Task":                        tasks,
		"Task/OneClaimWinner":         oneClaimWinner,
		"Attempt":                     attempts,
		"Attempt/Stale":               staleAttempts,
		"Audit":                       auditRecords,
		"Audit/NoGaps":                auditWithoutGaps,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}
