// Serves and requests HTTP in 32 goroutines. SIGTERM ends it with the numbers of answers.
package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sort"
	"sync/atomic"
	"syscall"
)

func answer(seed uint32) uint32 {
	numbers := make([]int, 2000)
	for i := range numbers {
		seed = seed*1664525 + 1013904223
		numbers[i] = int(seed >> 8)
	}
	sort.Ints(numbers)
	for i, n := range numbers {
		seed = seed*31 + uint32(n+i)
	}
	return seed
}

func main() {
	var done, wrong atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, answer(7))
	}))
	right := fmt.Sprint(answer(7))
	for t := 0; t < 32; t++ {
		go func() {
			for {
				response, err := http.Get(server.URL)
				var body []byte
				if err == nil {
					body, err = io.ReadAll(response.Body)
					response.Body.Close()
				}
				if err != nil || string(body) != right {
					wrong.Add(1)
				}
				done.Add(1)
			}
		}()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	<-end
	fmt.Printf("%d requests, %d wrong or failed\n", done.Load(), wrong.Load())
}
