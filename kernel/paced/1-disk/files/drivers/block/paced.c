// SPDX-License-Identifier: GPL-2.0-only
/*
 * A read-only disk of known speed. Its contents are the memory of a PCI device,
 * ivshmem-plain of QEMU. A timer ends each request when a device like this would:
 *
 * - It works on up to paced.depth requests at once, the others wait.
 * - Each takes paced.latency_us to find, and paced.seek_us more if it does not
 *   follow the request before.
 * - Then its data moves over a bus that all requests share, at paced.mb_s.
 *
 * Without parameters a request ends at once.
 */
#include <linux/backing-dev.h>
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>

#define PACED_MAX_DEPTH 64U
#define PACED_MEMORY_BAR 2

/* Writable, so that a test can stop the disk: no test waits for an hour. */
static unsigned int latency_us;
module_param(latency_us, uint, 0644);
MODULE_PARM_DESC(latency_us, "microseconds until the data of a request is found");

static unsigned int seek_us;
module_param(seek_us, uint, 0444);
MODULE_PARM_DESC(seek_us, "microseconds more if a request does not follow the last one");

static unsigned int mb_s;
module_param(mb_s, uint, 0444);
MODULE_PARM_DESC(mb_s, "millions of bytes that the bus moves in a second; 0: no limit");

static unsigned int depth = 1;
module_param(depth, uint, 0444);
MODULE_PARM_DESC(depth, "requests that are looked for at the same time, 1 to 64");

static bool slow;
module_param(slow, bool, 0444);
MODULE_PARM_DESC(slow, "name the disk slow, as eMMC and SD cards are");

struct paced_disk {
	struct blk_mq_tag_set tags;
	struct gendisk *disk;
	const char *memory;
	spinlock_t lock;		/* protects the fields below */
	u64 finder_free[PACED_MAX_DEPTH]; /* when it ends its request, ns of CLOCK_MONOTONIC */
	u64 bus_free;			/* the same for the bus */
	sector_t next;			/* sector behind the last request */
};

struct paced_request {
	struct hrtimer timer;
};

/* When the device ends a request that comes now, in nanoseconds of CLOCK_MONOTONIC. */
static u64 paced_end(struct paced_disk *paced, sector_t sector, unsigned int bytes)
{
	u64 *finder = &paced->finder_free[0];
	u64 found, latency = latency_us;

	guard(spinlock_irqsave)(&paced->lock);
	for (unsigned int i = 1; i < depth; i++) {
		if (paced->finder_free[i] < *finder)
			finder = &paced->finder_free[i];
	}
	if (sector != paced->next)
		latency += seek_us;
	paced->next = sector + (bytes >> SECTOR_SHIFT);
	found = max(ktime_get_ns(), *finder) + latency * NSEC_PER_USEC;
	if (mb_s)
		found = max(found, paced->bus_free) + div_u64((u64)bytes * 1000, mb_s);
	paced->bus_free = found;
	*finder = found;
	return found;
}

static void paced_read(struct paced_disk *paced, struct request *rq)
{
	const char *from = paced->memory + (blk_rq_pos(rq) << SECTOR_SHIFT);
	struct req_iterator iter;
	struct bio_vec vec;

	rq_for_each_segment(vec, rq, iter) {
		memcpy_to_bvec(&vec, from);
		from += vec.bv_len;
	}
	blk_mq_end_request(rq, BLK_STS_OK);
}

static enum hrtimer_restart paced_expired(struct hrtimer *timer)
{
	struct paced_request *request = container_of(timer, struct paced_request, timer);
	struct request *rq = blk_mq_rq_from_pdu(request);

	paced_read(rq->q->queuedata, rq);
	return HRTIMER_NORESTART;
}

static blk_status_t paced_queue_rq(struct blk_mq_hw_ctx *hctx,
				   const struct blk_mq_queue_data *data)
{
	struct request *rq = data->rq;
	struct paced_request *request = blk_mq_rq_to_pdu(rq);
	struct paced_disk *paced = hctx->queue->queuedata;
	u64 end, copy;

	if (req_op(rq) != REQ_OP_READ)
		return BLK_STS_NOTSUPP;
	blk_mq_start_request(rq);
	if (!latency_us && !seek_us && !mb_s) {
		paced_read(paced, rq);
		return BLK_STS_OK;
	}
	end = paced_end(paced, blk_rq_pos(rq), blk_rq_bytes(rq));
	/* A device would copy by itself. Here the processor does, at 8 bytes a nanosecond. */
	copy = blk_rq_bytes(rq) / 8;
	hrtimer_setup(&request->timer, paced_expired, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	hrtimer_start(&request->timer, ns_to_ktime(end - min(copy, end)), HRTIMER_MODE_ABS);
	return BLK_STS_OK;
}

static const struct blk_mq_ops paced_queue_ops = {
	.queue_rq = paced_queue_rq,
};

static const struct block_device_operations paced_ops = {
	.owner = THIS_MODULE,
};

static int paced_add_disk(struct paced_disk *paced, resource_size_t bytes)
{
	struct queue_limits limits = {
		.max_hw_sectors = UINT_MAX,
		.max_segments = USHRT_MAX,
		.max_segment_size = UINT_MAX,
	};
	int error;

	paced->tags.ops = &paced_queue_ops;
	paced->tags.nr_hw_queues = 1;
	paced->tags.queue_depth = 2 * PACED_MAX_DEPTH;
	paced->tags.numa_node = NUMA_NO_NODE;
	paced->tags.cmd_size = sizeof(struct paced_request);
	error = blk_mq_alloc_tag_set(&paced->tags);
	if (error)
		return error;
	paced->disk = blk_mq_alloc_disk(&paced->tags, &limits, paced);
	if (IS_ERR(paced->disk)) {
		error = PTR_ERR(paced->disk);
		goto free_tags;
	}
#ifdef BDI_CAP_SLOW
	if (slow)
		paced->disk->bdi->capabilities |= BDI_CAP_SLOW;
#endif
	paced->disk->fops = &paced_ops;
	strscpy(paced->disk->disk_name, "paced");
	set_capacity(paced->disk, bytes >> SECTOR_SHIFT);
	set_disk_ro(paced->disk, true);
	error = add_disk(paced->disk);
	if (!error)
		return 0;
	put_disk(paced->disk);
free_tags:
	blk_mq_free_tag_set(&paced->tags);
	return error;
}

static int paced_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct paced_disk *paced = devm_kzalloc(&pci->dev, sizeof(*paced), GFP_KERNEL);
	int error;

	if (!paced)
		return -ENOMEM;
	if (!depth || depth > PACED_MAX_DEPTH)
		return -EINVAL;
	error = pcim_enable_device(pci);
	if (error)
		return error;
	paced->memory = devm_memremap(&pci->dev, pci_resource_start(pci, PACED_MEMORY_BAR),
				      pci_resource_len(pci, PACED_MEMORY_BAR), MEMREMAP_WB);
	if (IS_ERR(paced->memory))
		return PTR_ERR(paced->memory);
	spin_lock_init(&paced->lock);
	return paced_add_disk(paced, pci_resource_len(pci, PACED_MEMORY_BAR));
}

static const struct pci_device_id paced_ids[] = {
	{ PCI_DEVICE(0x1af4, 0x1110) },	/* ivshmem */
	{}
};

static struct pci_driver paced_driver = {
	.name = "paced",
	.id_table = paced_ids,
	.probe = paced_probe,
	.driver.suppress_bind_attrs = true,
};
builtin_pci_driver(paced_driver);
