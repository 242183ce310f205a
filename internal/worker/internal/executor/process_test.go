package executor_test

import (
	"os"
	"testing"

	"holdfast.dev/holdfast/internal/worker/internal/executor"
	"holdfast.dev/holdfast/internal/worker/internal/executor/executortest"
	"holdfast.dev/holdfast/internal/worker/internal/sweep"
)

func TestMain(m *testing.M) {
	if err := sweep.Harden(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	executortest.Run(t, func(testing.TB) executor.Executor { return executor.Process{} })
}
