"""Slow tests, of which ``make test`` runs a part and ``make test-full`` the rest.

The rule: a test that takes more than about two seconds of CPU has one of n of its parameters (the first, and every n-th
after it), where these are dtypes, layouts, architectures, sizes or tiles of the same code; n is below. A slow test
without parameters is ``ELSEWHERE`` if a faster test, named with it, executes the code that it is about; what is added
is another process, size or compiler. Races and planted bugs are not here.
"""

from __future__ import annotations

ONE_IN: dict[str, dict[str, int]] = {
    "apps/clustering/test_blocks.py": {"test_labels_are_those_of_one_piece": 3},
    "apps/clustering/test_devices.py": {"test_kernels_find_the_domains_that_pytorch_finds": 2},
    "apps/clustering/test_graphs.py": {"test_radius_equals_brute_force": 2},
    "apps/clustering/test_missing.py": {"test_without_gaps_it_is_the_ordinary_step": 2, "test_fits": 2},
    "apps/clustering/test_mixture.py": {"test_each_option_recovers_layers": 2},
    "cli/test_run.py": {"test_ctrl_c_and_live_output": 2},
    "cuda/hopper/test_gemm.py": {"test_a_function_of_the_sums": 2},
    "cuda/hopper/test_wgmma.py": {"test_types_and_swizzles_of_k_major_operands": 3, "test_mn_major_operands": 3},
    "cuda/test_headers_ptx.py": {"test_mma": 3},
    "cuda/test_headers_wmma.py": {"test_mma_sync": 3},
    "docs/test_guide.py": {"test_a_page_shows_what_its_commands_print": 2},
    "lab/inductor/test_generate.py": {"test_triton_code_generated_without_a_gpu_becomes_a_correct_file": 3},
    "lab/report/test_browser.py": {"test_every_plot_is_drawn_and_fits": 3},
    "lab/test_fidelity.py": {
        "test_instructions_counters_and_resources_agree": 3,
        "test_what_is_not_yet_recorded_has_no_record_that_agrees": 3,
    },
    "machine/test_bulk.py": {
        "test_a_map_that_the_kernel_changes": 2,
        "test_a_reduction_in_the_shared_memory_of_another_block": 3,
        "test_a_reduction_of_bytes_in_global_memory": 3,
        "test_pixels_are_loaded": 2,
        "test_reductions_of_boxes": 3,
    },
    "machine/test_clusters.py": {"test_atomics_in_distributed_shared_memory": 2},
    "machine/test_control.py": {"test_divergence_agrees_with_the_emulator": 2},
    "machine/test_matrix.py": {"test_mma_shapes_and_formats": 3},
    "machine/test_memory.py": {"test_cp_async_bulk": 2},
    "machine/test_program.py": {"test_load_program_of_every_architecture": 2},
    "machine/test_traffic.py": {
        "test_sectors_of_global_loads_and_stores": 3,
        "test_wavefronts_of_shared_loads": 3,
        "test_wavefronts_of_shared_stores": 3,
        "test_wavefronts_of_shared_atomics": 3,
    },
    "machine/test_triton.py": {"test_matmul": 3},
    "nn/test_linear.py": {"test_compiles_into_one_graph": 2},
    "operation/test_nine.py": {"test_the_rung_is_right": 2, "test_it_compiles_into_one_graph": 3},
    "ops/test_conv_block.py": {"test_opcheck_with_and_without_a_saved_convolution": 2},
    "ops/test_conv_block_over_processes.py": {"test_two_processes_compute_the_block_of_one_batch": 3},
    "ops/test_grouped_matmul.py": {"test_every_configuration_of_float32": 2},
    "ops/test_linear.py": {"test_large_tiles_of_the_backward_on_tensor_cores": 2},
    "ops/test_linear_cross_entropy.py": {"test_the_end_of_a_network_is_torchs": 2, "test_targets_that_are_no_class": 2},
    "ops/test_matmul_ampere.py": {"test_the_machine_code_has_no_bank_conflicts": 4, "test_every_tile": 3},
    "ops/test_matmul_arguments.py": {"test_storage_offsets_of_one_element": 3, "test_an_empty_sum_is_zero": 3},
    "ops/test_matmul_specialised.py": {
        "test_a_slice_was_read_when_its_place_is_given_back": 2,
        "test_every_element_is_stored_once": 2,
    },
    "ops/test_matmul_tf32.py": {"test_every_tile": 2},
    "ops/test_matvec.py": {"test_every_configuration": 2, "test_every_division_of_the_work": 3, "test_views": 3},
    "ops/test_negated.py": {"test_a_negated_view_is_read_with_its_sign": 3},
    "ops/test_network.py": {
        "test_blocks_of_large_tensors_normalise_rows": 2,
        "test_gradients_on_tensor_cores_keep_infinity_nan_and_huge_values": 2,
        "test_tiles_of_wide_and_tall_images": 4,
    },
    "ops/test_potts_em_step.py": {
        "test_fragments_agree_with_pytorch": 3,
        "test_fragments_of_large_priors": 3,
        "test_gathering_warps_take_full_tiles": 2,
        "test_one_launch_agrees_with_pytorch": 3,
    },
    "ops/test_public.py": {"test_dynamic_shapes": 3, "test_compiles_into_one_graph": 3},
    "ops/test_skinny.py": {"test_splits_and_pairs_on_a_cpu": 2, "test_a_column_major_a_on_a_cpu": 2},
    "ops/test_softmax.py": {"test_large_values_do_not_overflow": 3},
    "ops/test_unseen_choices.py": {"test_strips_and_fitted_blocks_of_every_width": 3},
}

ELSEWHERE: dict[str, dict[str, str]] = {
    "apps/test_train.py": {"test_emulated_kernels_take_the_same_steps": "nn/test_step_gradients.py"},
    "cli/test_inductor.py": {"test_a_triton_file_is_written_checked_and_runs": "lab/inductor/test_standalone.py"},
    "cli/test_report.py": {"test_without_a_name_everything_that_is_recorded": "test_a_page_an_operation_and_an_index"},
    "cuda/test_emulator_launches.py": {
        "test_two_installations_can_share_a_cache": "test_a_timeout_reports_the_last_known_line"
    },
    "cuda/test_inline.py": {
        "test_an_error_in_a_kernel_reports_its_line_alone": "test_an_error_in_host_code_reports_its_line",
        "test_the_square_matrix_example": "the fixture `extension`",
    },
    "cuda/test_nvcc.py": {"test_a_grid_barrier_is_found_in_the_code_of_nvcc": "cuda/test_nvrtc.py"},
    "lab/inductor/test_standalone.py": {"test_the_file_runs_as_a_program": "the rest of the file, in this process"},
    "lab/report/test_browser.py": {"test_it_prints_with_everything_unfolded": "the rest of the file, on the screen"},
    "lab/store/test_durability.py": {
        "test_a_climb_that_is_killed_keeps_the_verdicts_it_had": "test_sigkill_loses_nothing_that_was_recorded"
    },
    "machine/test_memory.py": {"test_cuda_barrier_and_memcpy_async": "test_cp_async_bulk"},
    "ops/test_matmul_hopper.py": {"test_tiles_narrower_than_their_boxes": "ops/test_rungs.py"},
    "test_two_checkouts.py": {"test_a_checkout_beside_itself": "benchmarks are no part of the package"},
}
