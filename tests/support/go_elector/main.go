// A candidate of a leader election with client-go, which competes with pykruise's elector.
//
// It prints the notifications of client-go, one JSON object per line: the leader, its own leadership, and the record
// of the Lease as client-go reads it. SIGTERM releases the Lease.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type line struct {
	Says   string                             `json:"says"`
	Leader string                             `json:"leader,omitempty"`
	Record *resourcelock.LeaderElectionRecord `json:"record,omitempty"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "which cluster")
	namespace := flag.String("namespace", "", "of the Lease")
	name := flag.String("name", "kruise-manager", "of the Lease")
	identity := flag.String("identity", "go", "of this candidate")
	lease := flag.Duration("lease-duration", 15*time.Second, "")
	renew := flag.Duration("renew-deadline", 10*time.Second, "")
	retry := flag.Duration("retry-period", 2*time.Second, "")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		panic(err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: *namespace, Name: *name},
		Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *identity},
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	out := json.NewEncoder(os.Stdout)
	read := func(ctx context.Context) *resourcelock.LeaderElectionRecord {
		record, _, err := lock.Get(ctx)
		if err != nil {
			return nil
		}
		return record
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   *lease,
		RenewDeadline:   *renew,
		RetryPeriod:     *retry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { out.Encode(line{Says: "leads"}) },
			OnStoppedLeading: func() { out.Encode(line{Says: "leads no more"}) },
			OnNewLeader: func(leader string) {
				out.Encode(line{Says: "sees", Leader: leader, Record: read(context.Background())})
			},
		},
	})
}
